"""What a comparison says, and the corners of comparing and healing."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.commands.compare import comparison_lines
from rocketfsck.common.documents import to_document
from rocketfsck.errors import UsageError
from rocketfsck.repair.compare.compare import (
    Comparison,
    Copy,
    Different,
    Lack,
    Side,
    compare_stores,
    comparison_document,
    describe_side,
)
from rocketfsck.repair.compare.records import LogBytes, files_of
from rocketfsck.repair.heal.records import heal_stores
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import read_messages
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader

from tests.conftest import Directory
from tests.reported import reported

COPY = Copy(100, b"T\x1b", 1, 7, 1_700_000_000_000, valid=True)
A = Side(Path("/a"), 0, 5000, 1_700_000_000_000)
B = Side(Path("/b"), 0, 0, None)


def lines(**more: object) -> list[str]:
    fields: dict[str, object] = {
        "a": A,
        "b": B,
        "common": (0, 5000),
        "equal_byte_count": 4000,
        "unlike_byte_count": 1000,
        "different": (),
        "different_count": 0,
        "lacks": (),
        "resume_offset": 5000,
    }
    return list(comparison_lines(Comparison(**(fields | more))))  # type: ignore[arg-type]


def test_one_side_without_a_record() -> None:
    said = lines(different=(Different(40, COPY, None, None, None),), different_count=1)
    assert "Records differ at 1 place, first at 40:" in said
    assert "  B: no record begins here" in said
    assert any("T\\x1b/1, queue offset 7" in line and line.endswith("valid") for line in said)
    assert not any("bytes that differ" in line for line in said)
    assert said[-1] == "Result: the stores differ."


def test_many_queues_are_cut() -> None:
    lacks = tuple(Lack("B", b"T", number, 2, 5, 6) for number in range(-1, 12))
    said = lines(lacks=lacks)
    assert "Only B has 26 records of 13 queues:" in said
    assert "  2 records that no queue holds" in said
    assert "  T/0: 2 records, queue offsets 5 to 6" in said
    assert "  and 3 more queues (--format json has them all)" in said
    assert not any(line.startswith("Only A") for line in said)


def test_the_same() -> None:
    said = lines()
    assert "All records in the common range are the same." in said
    assert said[-1] == "Result: both hold the same records."
    assert "   physical offsets 0 to 0 (0 B)" in said


def test_names_that_are_no_utf8_in_json() -> None:
    comparison = Comparison(A, B, None, 0, 0, (), 0, (Lack("A", b"\xff", 0, 1, 0, 0),), None)
    odd = replace(comparison, a=replace(A, path=Path(os.fsdecode(b"/\xff"))))
    document = to_document(comparison_document(odd, comparison))
    assert (document["a"]["path_b64"], document["lacks"][0]["topic_b64"]) == ("L/8=", "/w==")
    assert [item["a"]["path"] for item in document["further"]] == ["/a"]
    assert comparison.first_divergence is None
    assert comparison_document(comparison).first_different_offset is None
    different = (Different(40, COPY, None, None, None),)
    assert comparison_document(replace(comparison, different=different)).first_different_offset == 40


def test_an_offset_that_no_file_holds(store_dir: Directory) -> None:
    with LogBytes(files_of(open_store(store_dir("4.9.8-basic")))) as log:
        assert log.reader_at(0)[1] == 0
        with pytest.raises(UsageError, match="with the offset"):
            log.reader_at(1 << 40)


def test_files_without_an_offset_are_passed_over(store_copy: Directory) -> None:
    """A name of 20 digits that is no 64-bit number."""
    store = store_copy("4.9.8-basic")
    before = describe_side(open_store(store))
    path = min((store / "commitlog").iterdir())
    shutil.copyfile(path, path.with_name("9" * 20))
    opened = open_store(store)
    assert describe_side(opened) == before
    assert compare_stores(opened, opened).same
    salvage = heal_stores(opened, opened, SalvageOptions())
    assert len(salvage.story.sources) == 2
    shutil.rmtree(store / "commitlog")
    (store / "commitlog").mkdir()
    with pytest.raises(UsageError, match="no commit log"):
        compare_stores(opened, open_store(store))


def test_a_hole_in_the_files_ends_what_is_safe(store_dir: Directory, store_copy: Directory) -> None:
    """All that both have is the same, but one has a file less in the middle."""
    source, copy = open_store(store_dir("4.9.8-multiseg")), store_copy("4.9.8-multiseg")
    missing = sorted((copy / "commitlog").iterdir())[1]
    missing.unlink()
    stated: list[tuple[int, int]] = []
    with reported("comparing the commit logs", stated):
        comparison = compare_stores(source, open_store(copy))
    assert comparison.resume_offset == int(missing.name)
    assert {lack.side for lack in comparison.lacks} == {"A"}
    assert all(different.b is None for different in comparison.different)
    assert stated[-1][0] == stated[-1][1] == comparison.equal_byte_count


def test_what_does_not_fit_one_log_is_refused(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-multiseg"))
    with pytest.raises(UsageError, match="do not fit into one log"):
        heal_stores(store, store, SalvageOptions(file_size=3000))


def test_a_record_longer_than_a_block(
    store_copy: Directory, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are compared in parts."""
    from rocketfsck.repair.compare import records as compare_records

    monkeypatch.setattr(compare_records, "BLOCK_SIZE", 64)
    copy = store_copy("4.9.8-multiseg")
    path = min((copy / "commitlog").iterdir())
    with FileReader(path) as reader:
        message = next(m for m in read_messages(reader, 0, ScanOptions()) if m.body_size > 300)
    data = bytearray(path.read_bytes())
    for at in (message.body_pos, message.body_pos + 299):
        data[at] ^= 1
    path.write_bytes(data)
    (different,) = compare_stores(open_store(store_dir("4.9.8-multiseg")), open_store(copy)).different
    body = message.body_pos - message.pos
    assert (different.first_byte, different.end_byte) == (body, body + 300)
