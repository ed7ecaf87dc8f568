"""A field that the recipe of CONTRIBUTING.md adds is in every dump, view, expression, table and input.

The edits are made in a copy of the source; a program that runs on the copy says what it saw.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rocketfsck


def _after(line: str, added: str) -> tuple[str, str]:
    return line, f"{line}\n{added}"


def _before(line: str, added: str) -> tuple[str, str]:
    return line, f"{added}\n\n{line}"


RETRIES = 'reconsume_times: Annotated[int, field("reconsumeTimes", I32, "", "retry count")] = 0'
QUEUE = 'queue_id: Annotated[int, field("queueId", I32, "", "queue of the topic")]'
ITEM_CRC = (
    'body_crc: Annotated[int, field("bodyCRC", I32, "", "0")] = dataclasses.field(default=0, kw_only=True)'
)
TAGS = 'field("tagsCode", I64, "", "hash of TAGS, or delivery time in ms, or ext address"),'
EXT_TIME = 'msg_store_time: Annotated[int, field("msgStoreTime", I64, "ms", "the record\'s storeTimestamp")]'
LINK = '"prevIndex", I32, "entries", "previous entry of the same slot, 0 = none"'
COUNT = 'trial_count: Annotated[int, field("trialCount", I32, "trials", "how often it was tried")]'
CODE = 'trial_code: Annotated[int, field("trialCode", I32, "", "a code")]'
TIME = 'trial_time: Annotated[int, field("trialTime", I64, "ms", "a time")]'
OFFSET = 'trial_offset: Annotated[int, field("trialOffset", I64, "bytes", "an offset")] = 0'

ADDED = {
    "formats/record.py": (
        _after(RETRIES, f"{COUNT} = 0"),
        _after("reconsume_times: int = 0", "trial_count: int = 0"),
        _after(QUEUE, f"{TIME} = 0"),
        _after(ITEM_CRC, f"{CODE} = dataclasses.field(default=0, kw_only=True)"),
    ),
    "formats/consumequeue.py": (
        _after(TAGS, 'field("trialCode", I32, "", "a code"),'),
        _after(EXT_TIME, CODE),
    ),
    "formats/indexfile.py": (
        _after(f"previous: Annotated[int, field({LINK})]", TIME),
        _before("@property", OFFSET),
    ),
    "formats/checkpoint.py": (_before("def values(self) -> dict[str, int]:", OFFSET),),
    "formats/magic.py": (_after("MIN_RECORD_SIZE: Final = 91", "MIN_RECORD_SIZE += 12"),),
}
"""By module: a line that is there once, and the lines that take its place.

A field is one line. The count of trials can be given to the writer, which takes one more.
"""

PROGRAM = """
import io, json, sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from rocketfsck.cli.app import run
from rocketfsck.cli.schema.table import document_schema
from rocketfsck.formats.checkpoint import CHECKPOINT, Checkpoint, encode_checkpoint
from rocketfsck.formats.consumequeue import UNIT, ExtUnit, decode_ext_unit, encode_ext_unit
from rocketfsck.formats.indexfile import ENTRY, HEADER, SLOT, IndexHeader, decode_header, encode_header
from rocketfsck.formats.layout import registry
from rocketfsck.formats.record import InnerItem, decode_items, decode_record, encode_items, encode_record
from rocketfsck.pipeline.columns import choose_columns, declared
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import plan_parts, read_part, schema_of
from rocketfsck.scan.columns import RECORD_DTYPES
from rocketfsck.writer import WriteOptions
from rocketfsck.writer.commitlog import draft_record
from rocketfsck.writer.input.rows import message_of_row
from rocketfsck.writer.message.compose import compose

root = Path(sys.argv[1])
said = {}

def cli(name, *arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        code = run([*map(str, arguments)])
    said[name] = {"code": code, "out": out.getvalue()}

def view(name, path, **wanted):
    rows = WantedRows(**wanted)
    parts = plan_parts(name, [StoreSource("broker", str(path))], rows)
    batches = [batch for part in parts for batch in read_part(part, rows)]
    said["view " + name] = [row for batch in batches for row in batch.to_pylist()]
    said["types " + name] = {field.name: str(field.type) for field in schema_of(name)}
    spark = declared(name, choose_columns(name, WantedRows(columns=("*",)), body=False, properties=False))
    said["spark " + name] = {field.name: [str(field.type), field.nullable] for field in spark}

row = {"topic": "T", "body": "b", "store_timestamp": 1_700_000_000_000, "trial_count": 7}
message = message_of_row(row, "row")
options = WriteOptions(version="4.9.8")
(draft,) = compose(message, options)
record = replace(draft_record(draft, b"KEYS\\x01a\\x02"), trial_time=29)
file = root / "commitlog" / "0".zfill(20)
file.parent.mkdir(parents=True)
file.write_bytes(encode_record(record).ljust(4096, bytes(1)))
queue = root / "consumequeue" / "T" / "0"
queue.mkdir(parents=True)
unit = {"offset": 0, "size": record.total_size, "tagsCode": 3, "trialCode": 11}
(queue / "0".zfill(20)).write_bytes(UNIT.build(unit) + bytes(9 * UNIT.size))
(root / "index").mkdir()
head = HEADER.zeros() | {"indexCount": 2, "hashSlotCount": 1}
entry = {"keyHash": 5, "phyOffset": 0, "timeDiff": 0, "prevIndex": 0, "trialTime": 13}
data = HEADER.build(head) + SLOT.build({"newestIndex": 1}) + bytes(ENTRY.size) + ENTRY.build(entry)
index = root / "index" / "20231114221320000"
index.write_bytes(data + bytes(2 * ENTRY.size))
(root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(trial_offset=17)))

unit = ExtUnit(tags_code=1, msg_store_time=2, trial_code=19, filter_bit_map=b"map")
said["again"] = [
    decode_record(encode_record(record)) == record,
    decode_items(encode_items([item := InnerItem(b"body", trial_code=23)])) == [item],
    decode_ext_unit(encode_ext_unit(unit)) == unit,
    decode_header(encode_header(header := IndexHeader(trial_offset=31))) == header,
]

for form in ("text", "jsonl", "csv"):
    cli("dump " + form, "dump", file, "--format", form, *(["-v"] if form == "text" else []))
cli("dump hex", "dump", file, "--hex")
cli("units", "dump", queue / "0".zfill(20), "--kind", "consumequeue", "--format", "jsonl", "--limit", 1)
cli("entries", "dump", index, "--slots", 1, "--entries", 4, "--format", "jsonl")
cli("chain", "dump", index, "--slots", 1, "--entries", 4, "--slot", 0, "--format", "jsonl")
cli("checkpoint", "dump", root / "checkpoint", "--format", "jsonl")
cli("found", "query", "scan", root, "trial_count == 7 and trial_count < 8", "--format", "jsonl")
cli("none", "query", "scan", root, "trial_count > 7", "--format", "jsonl")
cli("help", "query", "scan", "--help")
view("messages", root)
view("consumequeue", root)
view("index", root)
said["schema"] = json.dumps(document_schema("info-store"))
said["scan"] = list(RECORD_DTYPES)
said["tables"] = {name: [line[2] for line in layout.table()] for name, layout in registry().items()}
print(json.dumps(said, default=str))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("copy")
    source = place / "rocketfsck"
    shutil.copytree(
        Path(rocketfsck.__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    for module, lines in ADDED.items():
        path = source / module
        text = path.read_text("utf-8").splitlines()
        for line, added in lines:
            (at,) = (number for number, found in enumerate(text) if found.strip() == line)
            indent = text[at].removesuffix(line)
            text[at : at + 1] = [indent + new for new in added.split("\n")]
        path.write_text("\n".join(text) + "\n", "utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place / "store")],
        env={**os.environ, "PYTHONPATH": str(place), "ROCKETFSCK_KERNELS": "plain"},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _row(said: dict[str, Any], name: str, kind: str) -> dict[str, Any]:
    ended = said[name]
    assert ended["code"] == 0, ended
    rows = [json.loads(line) for line in ended["out"].splitlines()]
    found: dict[str, Any] = next(row for row in rows if row["kind"] == kind)
    return found


def test_a_field_of_a_record(said: dict[str, Any]) -> None:
    row = _row(said, "dump jsonl", "record")
    assert (row["trial_count"], row["reconsume_times"], row["topic"], row["faults"]) == (7, 0, "T", [])
    assert row["trial_time"] == 29
    assert list(row).index("trial_count") == list(row).index("reconsume_times") + 1
    assert "trial_count" in said["dump csv"]["out"].splitlines()[0]
    assert "trial_count" in said["dump text"]["out"]
    assert "| trial_count = 7" in said["dump hex"]["out"]
    assert "trial_count" in said["scan"]


def test_the_record_in_views_and_expressions(said: dict[str, Any]) -> None:
    (row,) = said["view messages"]
    assert (row["trial_count"], row["trial_time"], row["keys"]) == (7, 29, ["a"])
    assert said["types messages"]["trial_count"] == "int32"
    assert said["spark messages"]["trial_count"] == ["int32", False]
    assert json.loads(said["found"]["out"].splitlines()[-1])["trial_count"] == 7
    assert said["none"]["code"] == 4
    assert "trial_count" in said["help"]["out"]


def test_a_field_of_a_unit(said: dict[str, Any]) -> None:
    assert _row(said, "units", "unit")["trial_code"] == 11
    (row,) = said["view consumequeue"]
    assert (row["trial_code"], row["tags_code"], row["batch_count"]) == (11, 3, None)
    assert said["spark consumequeue"]["trial_code"] == ["int32", True]


def test_values_go_there_and_back(said: dict[str, Any]) -> None:
    """Of a record, an item of a batch, a unit of an extension and the header of an index file."""
    assert said["again"] == [True] * 4


def test_a_field_of_an_index_entry(said: dict[str, Any]) -> None:
    assert _row(said, "entries", "entry")["trial_time"] == 13
    assert _row(said, "entries", "header")["trial_offset"] == 0
    assert said["types index"]["trial_time"] == "int64"


def test_a_field_of_a_file(said: dict[str, Any]) -> None:
    assert _row(said, "checkpoint", "checkpoint")["trial_offset"] == 17
    assert "trial_offset" in said["schema"]


def test_the_specification_has_the_fields(said: dict[str, Any]) -> None:
    fields = {
        "record": "trialCount", "record_header": "trialCount", "consumequeue_unit": "trialCode",
        "index_entry": "trialTime", "checkpoint": "trialOffset", "index_header": "trialOffset",
        "inner_item": "trialCode", "consumequeue_ext_unit": "trialCode",
    }  # fmt: skip
    assert all(field in said["tables"][name] for name, field in fields.items())
    for name in ("record", "record_header"):
        assert "trialTime" in said["tables"][name]
