"""Machine formats: exact integers, bytes that are no UTF-8, files that appear whole or not at all."""

from __future__ import annotations

import base64
import csv
import io
import json
import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketfsck.cli.output import Column, Format, Table, open_output, to_json, write_rows
from rocketfsck.common.documents import plain
from rocketfsck.common.rows import arrow_batch, arrow_schema, plain_item, plain_values
from rocketfsck.errors import StoreError, UsageError

COLUMNS = (
    Column("topic", "name"),
    Column("offset", "int"),
    Column("body", "blob"),
    Column("properties", "map"),
    Column("keys", "json"),
    Column("ok", "bool"),
)
ROWS: list[dict[str, Any]] = [
    {
        "topic": b"Orders",
        "offset": (1 << 63) - 1,
        "body": b"\x00\xff",
        "properties": {"a": 'x"\x1b'},
        "keys": ["k 1"],
        "ok": True,
    },
    {"topic": b"\xff\xfe", "offset": -(1 << 63), "body": None, "properties": None, "keys": [], "ok": None},
    {"topic": "dir\udcff", "offset": 0, "body": b"", "properties": {}, "keys": None, "ok": False},
]
ODD: dict[str, Any] = {"topic": "half \ud800", "offset": 1, "keys": ["dir\udcff", "\ud800", b"\xff"]}
"""Text that has no bytes, and texts without a name."""


def _text(output_format: Format) -> str:
    stream = io.StringIO()
    write_rows(stream, output_format, Table(COLUMNS, {"kind": "test"}, ROWS))
    return stream.getvalue()


def test_json_lines() -> None:
    first, second, third = (json.loads(line) for line in _text("jsonl").splitlines())
    assert first == {
        "schema_version": 1,
        "topic": "Orders",
        "offset": 9223372036854775807,
        "body_b64": "AP8=",
        "properties": {"a": 'x"\x1b'},
        "keys": ["k 1"],
        "ok": True,
    }
    assert "topic" not in second
    assert base64.b64decode(second["topic_b64"]) == b"\xff\xfe"
    assert second["body_b64"] is None
    assert base64.b64decode(third["topic_b64"]) == b"dir\xff"
    assert third["body_b64"] == ""


def test_text_that_is_not_utf_8_has_one_form_everywhere() -> None:
    half, keys = base64.b64encode(b"\xd8\x00").decode(), plain_item(ODD["keys"])
    assert keys == [{"_b64": "ZGly/w=="}, {"_utf16": half}, {"_b64": "/w=="}]
    assert keys == [plain(key) for key in ODD["keys"][:2]] + [{"_b64": "/w=="}]
    assert plain_values(ODD) == {"topic_utf16": "AGgAYQBsAGYAINgA", "offset": 1, "keys": keys}
    schema = arrow_schema(COLUMNS, {})
    (row,) = arrow_batch([ODD], COLUMNS, schema).to_pylist()
    assert (row["topic"], base64.b64decode(row["topic_b64"])) == (None, b"half \xed\xa0\x80")
    assert json.loads(row["keys"]) == keys


def test_json_document() -> None:
    document = json.loads(_text("json"))
    assert document["schema_version"] == 1
    assert document["kind"] == "test"
    assert [row["offset"] for row in document["rows"]] == [(1 << 63) - 1, -(1 << 63), 0]
    empty = io.StringIO()
    write_rows(empty, "json", Table(COLUMNS, {"kind": "test"}, ()))
    assert json.loads(empty.getvalue())["rows"] == []


@pytest.mark.parametrize("output_format", ["json", "jsonl"])
def test_json_is_printable_ascii(output_format: Format) -> None:
    text = _text(output_format)
    assert text.isascii()
    assert all(line.isprintable() for line in text.splitlines())
    assert to_json({"\x7f": "\u202e\x9b"}) == '{"\\u007f": "\\u202e\\u009b"}'


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(_text("csv"))))
    assert list(rows[0]) == ["topic", "topic_b64", "offset", "body_b64", "properties", "keys", "ok"]
    assert rows[0]["offset"] == "9223372036854775807"
    assert rows[0]["topic_b64"] == ""
    assert rows[1]["topic"] == ""
    assert rows[1]["topic_b64"] == "//4="
    assert json.loads(rows[0]["properties"]) == {"a": 'x"\x1b'}
    assert [row["ok"] for row in rows] == ["true", "", "false"]


def test_csv_has_no_formulas_and_no_escapes() -> None:
    """Spreadsheets run what begins like a formula, terminals what begins with ESC; numbers stay numbers."""
    stream = io.StringIO()
    columns = (Column("text", "text"), Column("topic", "name"), Column("offset", "int"))
    hostile = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "a\x1b[2J", "\x9b2J", "\t=1+1", "plain\\ = text"]
    said = ({"text": text, "topic": text.encode(), "offset": -5} for text in hostile)
    write_rows(stream, "csv", Table(columns, {}, said))
    rows = list(csv.reader(io.StringIO(stream.getvalue())))[1:]
    assert [row[0] for row in rows] == [
        "'=cmd|' /C calc'!A0", "'+1", "'-1", "'@SUM(A1)", "a\\x1b[2J", "\\x9b2J", "\\t=1+1", "plain\\ = text",
    ]  # fmt: skip
    assert [row[1] for row in rows] == [row[0] for row in rows]
    assert {row[3] for row in rows} == {"-5"}


@pytest.mark.parametrize("output_format", ["arrow", "parquet"])
def test_arrow_and_parquet(tmp_path: Path, output_format: Format) -> None:
    path = tmp_path / "rows"
    with open_output(path, binary=True) as stream:
        write_rows(stream, output_format, Table(COLUMNS, {"kind": "test"}, ROWS * 9000))
    table = pq.read_table(path) if output_format == "parquet" else pa.ipc.open_stream(path).read_all()
    assert table.num_rows == 27000
    assert table.column("offset").to_pylist()[:3] == [(1 << 63) - 1, -(1 << 63), 0]
    assert table.column("topic").to_pylist()[:3] == ["Orders", None, None]
    assert table.column("topic_b64").to_pylist()[:3] == [None, "//4=", "ZGly/w=="]
    assert table.column("body").to_pylist()[:3] == [b"\x00\xff", None, b""]
    assert table.column("properties").to_pylist()[0] == [("a", 'x"\x1b')]
    assert json.loads(table.schema.metadata[b"rocketfsck"]) == {"schema_version": 1, "kind": "test"}


def test_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    with pytest.raises(RuntimeError), open_output(path, binary=False) as stream:
        stream.write("half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]
    with open_output(path, binary=False) as stream:
        stream.write("after")
    assert path.read_text() == "after"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_never_into_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for place in (tmp_path / "store" / "x", tmp_path / "link" / "x", tmp_path / "a" / ".." / "store" / "x"):
        with pytest.raises(UsageError), open_output(place, binary=False, forbidden=[tmp_path / "store"]):
            raise AssertionError
    assert not list((tmp_path / "store").iterdir())


def test_the_part_is_nobody_elses_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name cannot be guessed; where something has it nevertheless, nothing is written there."""
    (tmp_path / "victim").write_text("precious")
    names: list[str] = []
    for _ in range(2):
        with open_output(tmp_path / "out", binary=True) as stream:
            stream.write(b"x")
            names += [str(path) for path in tmp_path.glob(".out.*")]
    assert len({*names}) == 2 and all(len(Path(name).name) > 20 for name in names)
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)
    part = Path(names[0]).with_name(f".out.{'0' * 16}.part")
    for make in (lambda: part.symlink_to(tmp_path / "victim"), lambda: part.write_text("precious")):
        make()
        with pytest.raises(StoreError, match="cannot be written"), open_output(tmp_path / "out", binary=True):
            raise AssertionError
        assert (tmp_path / "victim").read_text() == "precious"
        assert part.read_text() == "precious"
        part.unlink()
