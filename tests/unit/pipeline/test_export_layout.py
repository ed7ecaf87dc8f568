"""Names of directories: nothing that a topic says leaves its place, and readers get it back."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.pipeline.export.layout import NULL_NAME, Cell, date_text, days_of, escape

from tests.unit.pipeline.exporting import HOSTILE

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=120)


@given(TEXT, st.booleans())
def test_a_name_is_one_part_of_a_path_and_comes_back(text: str, plain: bool) -> None:
    name = escape(text, plain=plain)
    assert name not in (".", "..", "", NULL_NAME)
    assert not set(name) & set("/\\=:*?\"<>|#'{}[]^\x7f") - {"="}
    assert "=" not in name
    assert all(ord(character) >= 0x20 for character in name)
    assert len(f"prepared_transaction_offset={name}".encode()) <= 255
    if plain:
        assert name.isascii()
    if len(text.encode()) * 3 <= 200:
        assert unquote(name, errors="strict") == text


@given(TEXT, TEXT)
def test_different_values_have_different_names(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


def test_long_values_are_cut_and_stay_different() -> None:
    names = {escape("é" * 200 + str(number)) for number in range(3)} | {escape("%" * 127)}
    assert len(names) == 4
    assert all(len(name.encode()) <= 227 for name in names)


def test_nulls() -> None:
    assert escape(None) == escape("") == NULL_NAME
    assert unquote(escape(NULL_NAME)) == NULL_NAME != escape(NULL_NAME)
    assert Cell(("a", None)).folder(("topic", "date")) == ("topic=a", f"date={NULL_NAME}")
    cells = [Cell((None,)), Cell(("b",)), Cell(("a",))]
    assert sorted(cells, key=lambda cell: cell.sort_key) == [cells[2], cells[1], cells[0]]


def test_arrow_reads_every_name(tmp_path: Path) -> None:
    topics = [topic for topic in HOSTILE if 0 < len(topic) < 200]
    for number, topic in enumerate(topics):
        (folder,) = Cell((topic,)).folder(("topic",))
        (tmp_path / folder).mkdir()
        pa.parquet.write_table(pa.table({"n": [number]}), tmp_path / folder / "x.parquet")
    assert len(list(tmp_path.iterdir())) == len(topics)
    fields = ds.partitioning(pa.schema([pa.field("topic", pa.string())]), flavor="hive")
    found = ds.dataset(tmp_path, partitioning=fields).to_table().to_pylist()
    assert {row["topic"]: row["n"] for row in found} == {topic: n for n, topic in enumerate(topics)}


@pytest.mark.parametrize(
    ("time", "day"),
    [
        (0, "1970-01-01"),
        (1_700_000_000_000, "2023-11-14"),
        (-1, None),
        (1 << 62, None),
        (86_399_999, "1970-01-01"),
    ],
)
def test_days(time: int, day: str | None) -> None:
    (number,) = days_of(np.array([time])).tolist()
    assert date_text(number) == day
