"""Prepared messages in RocksDB against the log: those without a row that nothing ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.formats.rocks import MARKS, ROCKS_TRANS, TransKey, encode_i64, encode_trans_key
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.databases.messages import FIRST_CHECK, HALF_TOPIC, OP_OFFSET, OP_TOPIC
from rocketfsck.verify.finding import Finding
from rocketfsck.writer import OutgoingMessage

from tests.databases import write_database
from tests.unit.query.maker import GEOMETRY, make, message, reopen


def half(number: int, **more: str) -> OutgoingMessage:
    unique = f"U{number:04d}"
    stated = {"UNIQ_KEY": unique, "__transactionId__": unique, "REAL_TOPIC": "Tx", **more}
    return message(number, HALF_TOPIC, properties=stated)


def made(root: Path, last: list[OutgoingMessage] | None = None) -> tuple[Store, list[int]]:
    """Six half messages, of which the last says when it is first asked about; and where each of them is."""
    first = [half(number) for number in range(5)] + [half(5, **{FIRST_CHECK: "9"})]
    store = make(root, [*first, *(last or [])], version="5.5.0")
    sizes = [store.queues[0].files[0].path.read_bytes()[20 * row : 20 * row + 8] for row in range(6)]
    return store, [int.from_bytes(data, "big") for data in sizes]


def found(root: Path, offsets: list[int], rows: list[int], mark: int) -> list[Finding]:
    """What the check says of the family where only those half messages have a row."""
    store = open_store(root / "store")
    log = b"".join(file.path.read_bytes() for file in store.commitlog.files)
    trans = {MARKS["trans"][0]: encode_i64(mark)}
    for number in rows:
        size = int.from_bytes(log[offsets[number] : offsets[number] + 4], "big")
        key = encode_trans_key(TransKey(offsets[number], b"Tx", b"U%04d" % number))
        trans[key] = ROCKS_TRANS.build({"checkCount": 0, "size": size})
    write_database(root / "store/rocksdbstore", {"default": {}, "timer": {}, "trans": trans})
    report = check_store(reopen(root, GEOMETRY, "5.5.0"), CheckOptions(jobs=1))
    return [finding for finding in report.findings if finding.rule == "RK014"]


def test_all_that_wait_have_rows(tmp_path: Path) -> None:
    _, offsets = made(tmp_path)
    assert found(tmp_path, offsets, [0, 1, 2, 3, 4], offsets[5]) == []


def test_one_that_waits_has_none(tmp_path: Path) -> None:
    _, offsets = made(tmp_path)
    (finding,) = found(tmp_path, offsets, [0, 1, 3, 4], offsets[5])
    assert (finding.where.physical_offset, finding.found["unique_key"]) == (offsets[2], "U0002")
    assert "neither committed nor rolled back" in str(finding.found["reason"])


@pytest.mark.parametrize(
    ("rows", "mark", "why"),
    [
        ([2, 3, 4], 5, "those before the start row were given up"),
        ([0, 1], 1, "the database is not further"),
        ([], 5, "all were given up"),
    ],
)
def test_what_is_not_judged(rows: list[int], mark: int, why: str, tmp_path: Path) -> None:
    _, offsets = made(tmp_path)
    assert found(tmp_path, offsets, rows, offsets[mark]) == [], why


def test_those_that_an_op_message_ended(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    _, offsets = made(tmp_path / "before")
    ops = [
        message(6 + number, OP_TOPIC, properties={"TAGS": "d", OP_OFFSET: text})
        for number, text in enumerate((str(offsets[2]), "no number", ""))
    ]
    _, offsets = made(tmp_path, ops)
    assert found(tmp_path, offsets, [0, 1, 3, 4], offsets[5]) == []
    assert len(found(tmp_path, offsets, [0, 1, 4], offsets[5])) == 1
