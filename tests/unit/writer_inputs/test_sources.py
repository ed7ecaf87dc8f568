"""Inputs as files: JSON lines, Parquet, Arrow; what is refused leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rocketfsck.errors import StoreError
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.input import rows as inputs_module
from rocketfsck.writer.input.fields import InputError
from rocketfsck.writer.input.rows import open_messages
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.writing import fill_from, make_store

from tests.reported import reported

SMALL = Geometry(commitlog_file_size=1 << 17, consumequeue_file_size=200, slot_count=10, entry_count=50)
OPTIONS = WriteOptions(geometry=SMALL, sync=False)
ROWS: list[dict[str, Any]] = [
    {"topic": "A", "body": "one", "keys": ["k1", "k2"], "born_host": "10.0.0.1:1"},
    {"topic": "B", "queue_id": 2, "properties": {"x": "y"}, "store_timestamp": 1_700_000_000_000},
    {"topic": "A", "tags": "T", "delay_level": 2},
]


def _all(path: Path | str, start_time: int = 7) -> list[OutgoingMessage]:
    with open_messages(path, start_time) as source:
        return list(source)


def _lines(path: Path, *rows: Any) -> Path:
    path.write_bytes(
        b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
    )
    return path


def test_json_lines(tmp_path: Path) -> None:
    found = _all(_lines(tmp_path / "in", b"\xef\xbb\xbf" + json.dumps(ROWS[0]).encode(), b"  ", *ROWS[1:]))
    assert [message.topic for message in found] == ["A", "B", "A"]
    assert [message.store_timestamp for message in found] == [7, 1_700_000_000_000, 1_700_000_000_001]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b'{"topic": "A"}\n{"topic"')

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(InputError, match=r"^standard input, line 2: not JSON"):
        _all("-")


def test_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = _lines(tmp_path / "in", *ROWS).read_bytes()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(pipe.write_bytes, data)
        assert len(_all(pipe)) == 3
        writing.result()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b'{"topic": "\xff"}', "byte 11 is not UTF-8"),
        (b'{"topic": "a", "topic": "b"}', "topic: appears twice"),
        (b'{"flag": NaN}', "NaN is not JSON"),
        (b'{"flag": 1.0}', "1.0 is not a whole number"),
        (b'{"flag": 1e9}', "1e9 is not a whole number"),
        (b'{"flag": ' + b"1" * 5000 + b"}", "digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"topic": "a", "nope": 1}', "nope: unknown field"),
    ],
)
def test_lines_that_are_no_message(tmp_path: Path, line: bytes, reason: str) -> None:
    path = _lines(tmp_path / "in", ROWS[0], b"", line)
    with pytest.raises(InputError) as caught:
        _all(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert reason in str(caught.value)


def test_a_line_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "MAX_LINE_SIZE", 100)
    path = _lines(tmp_path / "in", b'{"topic": "' + b"a" * 200)
    with pytest.raises(InputError, match="line 1: more than 100 bytes"):
        _all(path)


def test_inputs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        _all(tmp_path / "none")
    with pytest.raises(StoreError, match="cannot be read"):
        _all(tmp_path)


def _table() -> pa.Table:
    return pa.table({
        "topic": pa.array([b"A", b"B", b"A"], pa.binary()).dictionary_encode(),
        "queue_id": pa.array([None, 2, None], pa.int32()),
        "body": pa.array([b"one", None, None], pa.large_binary()),
        "keys": pa.array([["k1", "k2"], None, None], pa.list_(pa.string())),
        "properties": pa.array([None, [("x", "y")], None], pa.map_(pa.string(), pa.string())),
        "store_timestamp": pa.array([None, 1_700_000_000_000, None], pa.int64()),
        "born_host": pa.array(["10.0.0.1:1", None, None]),
        "tags": pa.array([None, None, "T"]),
        "delay_level": pa.array([None, None, 2], pa.int64()),
        "size": pa.array([1, 2, 3], pa.int32()),
    })  # fmt: skip


def _written(table: pa.Table, path: Path, form: str) -> Path:
    if form == "parquet":
        parquet.write_table(table, path)
    else:
        new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with path.open("wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table)
    return path


FORMS = ("parquet", "file", "stream")


@pytest.mark.parametrize("form", FORMS)
def test_columns_say_what_lines_say(tmp_path: Path, form: str) -> None:
    found = _all(_written(_table(), tmp_path / "table", form))
    assert found == _all(_lines(tmp_path / "lines", *ROWS))


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_columns_are_refused_by_number(tmp_path: Path, form: str) -> None:
    table = pa.table({"topic": ["A"] * 700, "queue_id": [0] * 699 + [-1]})
    with pytest.raises(InputError, match=r"table, row 700: queue_id: -1 must be"):
        _all(_written(table, tmp_path / "table", form))
    with pytest.raises(InputError, match="row 0: colour: unknown column"):
        _all(_written(table.append_column("colour", [[""] * 700]), tmp_path / "other", form))


def test_two_columns_of_a_name_and_damaged_files(tmp_path: Path) -> None:
    table = pa.table([pa.array(["A"]), pa.array(["B"])], names=["topic", "topic"])
    with pytest.raises(InputError, match="topic: two columns"):
        _all(_written(table, tmp_path / "two", "stream"))
    for form in FORMS:
        whole = _written(_table(), tmp_path / "whole", form).read_bytes()
        (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
        with pytest.raises((StoreError, InputError)):
            _all(tmp_path / "cut")


def test_tables_of_dump_have_json_in_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "topic": ["A"],
            "keys": ['["a", "b"]'],
            "kind": ["record"],
            "topic_b64": pa.array([None], pa.string()),
        },
    ).replace_schema_metadata({"rocketfsck": "{}"})
    properties = pa.array([[("KEYS", "a b"), ("A", "1")]], pa.map_(pa.string(), pa.string()))
    table = table.append_column("properties", properties)
    found = _all(_written(table, tmp_path / "table", "parquet"))
    assert found[0].properties == (("KEYS", "a b"), ("A", "1"))
    bad = table.set_column(1, "keys", [["[a"]])
    with pytest.raises(InputError, match="row 1: keys: not JSON"):
        _all(_written(bad, tmp_path / "bad", "parquet"))


REFUSED_BY_THE_BROKER: list[tuple[dict[str, Any], str, str]] = [
    ({"topic": "T" * 128}, "topic", "128 characters"),
    ({"topic": "a/b"}, "topic", "directory"),
    ({"topic": "T", "properties": {"a": "b" * 32767}}, "properties", "the limit is"),
    ({"topic": "T", "properties": {"DELAY": "x"}}, "properties", "not a number"),
    ({"topic": "T", "properties": {"INNER_NUM": "1", "INNER_BASE": "0"}}, "properties", "inner batch"),
    ({"topic": "T", "body": "b" * (5 << 20)}, "body", "maxMessageSize"),
    ({"topic": "T", "multi_dispatch": ["%LMQ%a"]}, "multi_dispatch", "exclude"),
    ({"topic": "T", "sys_flag": 0x80}, "sys_flag", "inner batch"),
    ({"topic": "T", "kind": "inner batch", "items": [{"body": "a"}]}, "", "not among the batch topics"),
    ({"topic": "T", "items": [{"body": "a"}]}, "items", "normal message"),
    ({"topic": "T", "body": "b" * 140_000}, "", "commit log file"),
]


@pytest.mark.parametrize(("row", "field", "reason"), REFUSED_BY_THE_BROKER)
def test_what_a_broker_refuses_is_refused_with_the_line(
    tmp_path: Path, row: dict[str, Any], field: str, reason: str
) -> None:
    path = _lines(tmp_path / "in", ROWS[0], row)
    with open_messages(path) as source, pytest.raises(InputError) as caught:
        make_store(tmp_path / "store", fill_from(source), OPTIONS, {}, manifest=ManifestLevel.FULL)
    assert caught.value.place == f"{path}, line 2"
    assert caught.value.field == field
    assert reason in str(caught.value)
    assert [item.name for item in tmp_path.iterdir()] == ["in"]


def test_hosts_that_a_version_does_not_have(tmp_path: Path) -> None:
    path = _lines(tmp_path / "in", {"topic": "T", "born_host": "[::1]:1"})
    with open_messages(path) as source, pytest.raises(InputError, match=r"line 1: born_host: .*IPv6"):
        make_store(tmp_path / "store", fill_from(source), WriteOptions("4.4.0", SMALL, sync=False), {})


def test_the_store_is_that_of_write_store(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with open_messages(_lines(tmp_path / "in", *ROWS * 400), 5) as source:
        fill = fill_from(source)
        with reported("writing the messages", seen):
            made = make_store(tmp_path / "store", fill, OPTIONS, {"input": "in"}, manifest=ManifestLevel.FULL)
    written = write_store(tmp_path / "other", _all(tmp_path / "in", 5), OPTIONS)
    assert made.store.files == written.files
    for name, _ in written.files:
        assert (tmp_path / "store" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert len(seen) == 2
    assert seen[0] == (0, None) and seen[1][0] > 0 and seen[1][1] is None
    assert made.messages is not None
    lines = [json.loads(line) for line in made.messages.read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(1200))
    assert lines[0]["keys"] == ["k1", "k2"]
    assert lines[2]["topic"] == "SCHEDULE_TOPIC_XXXX"
