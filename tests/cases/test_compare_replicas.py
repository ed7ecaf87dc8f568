"""Nodes of DLedger's and replicas of controller mode compared: entries, who may lead, epochs."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.formats.dledger import DLEDGER_ENTRY, ENTRY_HEADER_SIZE
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.repair.compare.compare import Comparison, compare_stores
from rocketfsck.repair.compare.configs import EpochsCompared
from rocketfsck.store import open_store

from tests.conftest import Directory

DATA = f"dledger-n0/data/{0:020d}"
END = 105412


@pytest.fixture
def node(real_dir: Directory, tmp_path: Path) -> Callable[[str], Path]:
    """Gives copies of a node, by name: what of the store counts here."""

    def copy(name: str) -> Path:
        wanted = shutil.ignore_patterns("timerwheel", "rocksdbstore", "index", "consumequeue")
        return Path(shutil.copytree(real_dir("5.5.0-dledger"), tmp_path / name, ignore=wanted))

    return copy


def put(root: Path, pos: int, data: bytes) -> None:
    with (root / DATA).open("r+b") as stream:
        stream.seek(pos)
        stream.write(data)


def place(root: Path, number: int) -> tuple[int, int]:
    """Where an entry begins and ends."""
    data, pos = (root / DATA).read_bytes(), 0
    for _ in range(number):
        pos += DLEDGER_ENTRY.parse(data[pos : pos + ENTRY_HEADER_SIZE])["size"]
    return pos, pos + DLEDGER_ENTRY.parse(data[pos : pos + ENTRY_HEADER_SIZE])["size"]


def compared(a: Path, b: Path) -> Comparison:
    return compare_stores(open_store(a), open_store(b))


def test_two_nodes_that_are_alike(node: Callable[[str], Path]) -> None:
    comparison = compared(node("a"), node("b"))
    assert comparison.same
    found = comparison.replication
    first, second = found.nodes
    assert first is not None
    assert first == second
    assert (first.first_index, first.last_index, first.last_term, first.end_offset) == (0, 256, 0, END)
    assert (first.committed_index, first.current_term, first.voted_for) == (256, 0, "n0")
    assert (found.parting, found.ahead, found.epochs) == (None, None, None)


def test_a_node_that_lacks_the_end(node: Callable[[str], Path]) -> None:
    a, b = node("a"), node("b")
    start, _ = place(b, 250)
    put(b, start, bytes(END - start))
    (b / "dledger-n0/checkpoint").write_text("committedIndex=249\nendIndex=249\n")
    comparison = compared(a, b)
    assert not comparison.same
    assert comparison.resume_offset == start
    assert sum(lack.record_count for lack in comparison.lacks) == 7
    found = comparison.replication
    assert found.nodes[1] is not None
    assert (found.nodes[1].last_index, found.nodes[1].committed_index) == (249, 249)
    assert (found.ahead, found.parting) == ("A", None)
    assert compared(b, a).replication.ahead == "B"


def test_entries_of_another_term(node: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    """A header alone differs: the records are the same, and the nodes are not."""
    a, b = node("a"), node("b")
    start, _ = place(b, 200)
    put(b, start + 16, struct.pack(">q", 3))
    comparison = compared(a, b)
    assert not comparison.different_count
    assert not comparison.same
    parting = comparison.replication.parting
    assert parting is not None
    assert (parting.physical_offset, parting.index, parting.terms) == (start, 200, (0, 3))
    assert parting.in_header
    assert run(["compare", str(a), str(b)]) == 4
    said = capfd.readouterr().out
    at = f"{start} on, entry 200"
    assert f"entries differ from {at}: term 0 in A, term 3 in B; their headers differ" in said
    assert f"A is DLedger's node dledger-n0: entries 0 to 256, the last of term 0, which end at {END}" in said


def test_another_body(node: Callable[[str], Path]) -> None:
    a, b = node("a"), node("b")
    start, end = place(b, 100)
    put(b, end - 3, b"zzz")
    parting = compared(a, b).replication.parting
    assert parting is not None
    assert (parting.physical_offset, parting.index, parting.in_header) == (start, 100, False)
    put(a, start, bytes(4))
    parting = compared(a, b).replication.parting
    assert parting is not None
    assert (parting.index, parting.terms) == (100, (None, 0))


def test_three_nodes(node: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    roots = [node(name) for name in "abc"]
    start, _ = place(roots[2], 256)
    put(roots[2], start, bytes(END - start))
    capfd.readouterr()
    assert run(["compare", *map(str, roots), "--format", "json"]) == 4
    first = json.loads(capfd.readouterr().out)
    assert [first["same"], *(item["same"] for item in first["further"])] == [True, False, False]
    assert [item["replication"]["ahead"] for item in first["further"]] == ["A", "A"]
    assert run(["compare", *map(str, roots[:2]), str(roots[0])]) == 0
    assert capfd.readouterr().out.count("both hold the same records") == 3
    assert run(["compare", *map(str, roots), "--heal"]) == 16


def test_no_sound_entry(node: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    a, b = node("a"), node("b")
    put(b, 0, bytes(END))
    (b / "dledger-n0/checkpoint").write_text("committedIndex=\\u00zz\n")
    found = compared(a, b).replication
    assert found.nodes[1] is not None
    assert (found.nodes[1].last_index, found.nodes[1].committed_index, found.ahead) == (None, None, "A")
    assert run(["compare", str(a), str(b)]) == 4
    assert "B is DLedger's node dledger-n0: no sound entry" in capfd.readouterr().out


def with_epochs(source: Path, target: Path, *starts: tuple[int, int]) -> Path:
    shutil.copytree(source, target)
    (target / "epochFileCheckpoint").write_bytes(encode_epochs([EpochEntry(*start) for start in starts]))
    return target


def test_epochs_of_master_and_slave(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As EpochFileCache.findConsistentPoint: the end of the last epoch that began at one offset on both."""
    source = store_dir("5.3.3-multiseg")
    a = with_epochs(source, tmp_path / "a", (1, 0), (2, 70000), (4, 90000))
    b = with_epochs(source, tmp_path / "b", (1, 0), (2, 70000), (3, 80000))
    comparison = compared(a, b)
    end = comparison.a.end_offset
    assert comparison.same
    assert comparison.replication.epochs == EpochsCompared(2, 80000, (4, 3))
    assert compared(a, a).replication.epochs == EpochsCompared(4, end, (4, 4))
    assert run(["compare", str(a), str(b)]) == 0
    assert "epoch 2 is the last that both have: a slave continues from 80000" in capfd.readouterr().out
    c = with_epochs(source, tmp_path / "c", (1, 8))
    assert compared(a, c).replication.epochs == EpochsCompared(None, None, (4, 1))
    assert run(["compare", str(a), str(c)]) == 0
    assert "no epoch begins at the same offset in both" in capfd.readouterr().out
    (c / "epochFileCheckpoint").write_text("2\n0\n")
    assert compared(a, c).replication.epochs is None
