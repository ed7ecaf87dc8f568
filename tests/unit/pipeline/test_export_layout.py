"""Names of directories: nothing that a topic says leaves its place, and readers get it back."""

from __future__ import annotations

import hashlib
import string
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.pipeline.export.file import NULL_NAME, Cell, date_text, days_of, escape

from tests.unit.pipeline.exporting import HOSTILE

PLAIN = frozenset(string.ascii_letters + string.digits + "-_.")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=120)


LONGEST = 255 - len("topic=")


@given(TEXT, st.integers(70, LONGEST), st.booleans())
def test_a_name_is_one_part_of_a_path_and_comes_back(text: str, size: int, plain: bool) -> None:
    name = escape(text, size, plain=plain)
    assert name not in ("", NULL_NAME)
    assert not set(name) & set("/\\=:*?\"<>|#'{}[]^\x7f")
    assert all(ord(character) >= 0x20 for character in name)
    assert len(name.encode()) <= size
    if plain:
        assert name.isascii()
    kept = PLAIN if plain else PLAIN | {char for char in text if not char.isascii()}
    whole = "".join(char if char in kept else quote(char, "").replace("~", "%7E") for char in text)
    if len(whole.encode()) <= size:
        assert name == whole
        assert unquote(name, errors="strict") == text
    else:  # still text that readers give back: the first characters and a digest
        start, _, digest = unquote(name, errors="strict").rpartition("-")
        assert text.startswith(start)
        assert digest == hashlib.sha256(text.encode()).hexdigest()
        assert len(name.encode()) > size - len("%F0%9F%98%80")


@given(TEXT, TEXT)
def test_different_values_have_different_names(one: str, other: str) -> None:
    assert (escape(one, 90) == escape(other, 90)) == (one == other)


def test_no_value_has_the_directory_of_a_longer_one() -> None:
    """A topic may have the very name that another one is cut to."""
    long = "é" * 200
    cut = escape(long, LONGEST)
    names = [escape(value, LONGEST) for value in (long, cut, escape(cut, LONGEST))]
    assert len(set(names)) == 3


def test_nulls() -> None:
    assert escape(None, 99) == escape("", 99) == NULL_NAME
    assert NULL_NAME not in (escape(NULL_NAME, 99), unquote(escape(NULL_NAME, 99)))
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
