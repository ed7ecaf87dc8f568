"""The loss ledger: every unit and every valid record is accounted for, and what is lost must be planned."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.formats.dtypes import Longs
from rocketfsck.repair.apply import ledger as module
from rocketfsck.repair.apply.ledger import Ledger, LedgerAccount, OffsetRange, make_ledger, match_rows
from rocketfsck.repair.plan.model import Loss
from rocketfsck.store import open_store
from rocketfsck.store.model import StoreFile

from tests.conftest import Directory

NAME = "4.9.8-multiseg"
ROWS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 2)), max_size=8, unique_by=lambda r: r[0]
)


def columns(rows: Sequence[tuple[int, int, int]]) -> tuple[Longs, Longs, Longs]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(ROWS, ROWS)
def test_matching_balances_and_finds_what_moved(
    left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]
) -> None:
    found = match_rows(columns(left), columns(right))
    accounted = found.corrected + found.moved
    assert len(left) == accounted + len(found.lost)
    assert len(right) == accounted + found.gained
    mine = Counter(row[:2] for row in left)
    same_place = sum((mine & Counter(row[:2] for row in right)).values())
    assert found.corrected >= same_place
    rest_left = Counter(row[1:] for row in left if row[:2] not in {other[:2] for other in right})
    rest_right = Counter(row[1:] for row in right if row[:2] not in {other[:2] for other in left})
    assert found.moved == sum((rest_left & rest_right).values())


def by_content(old: StoreFile, new: StoreFile) -> bool:
    return old.path.read_bytes() == new.path.read_bytes()


def compare(before: Path, after: Path, *losses: Loss) -> Ledger:
    return make_ledger(open_store(before), open_store(after), losses, by_content)


@pytest.fixture
def pair(store_copy: Directory, tmp_path: Path) -> tuple[Path, Path]:
    before = store_copy(NAME)
    return before, Path(shutil.copytree(before, tmp_path / "after"))


def unit(root: Path, index: int) -> tuple[Path, int]:
    """The file and position of a unit of queue Seg0/0."""
    folder = root / "consumequeue" / "Seg0" / "0"
    file = sorted(folder.iterdir())[index * 20 // 1200]
    return file, index * 20 % 1200


def read_unit(root: Path, index: int) -> bytes:
    file, pos = unit(root, index)
    return file.read_bytes()[pos : pos + 20]


def put_unit(root: Path, index: int, data: bytes) -> None:
    file, pos = unit(root, index)
    with file.open("r+b") as stream:
        stream.seek(pos)
        stream.write(data)


def only(found: Ledger) -> LedgerAccount:
    (account,) = found.queues
    assert (account.kind, account.topic, account.queue_id) == ("file", "Seg0", 0)
    return account


def test_nothing_changed(pair: tuple[Path, Path]) -> None:
    found = compare(*pair)
    assert found.accounts == () and found.balanced
    assert found.unchanged_log_file_count == 5 and found.unchanged_queue_count > 1


def test_units_kept_corrected_moved_gained(pair: tuple[Path, Path]) -> None:
    before, after = pair
    first, second = read_unit(before, 0), read_unit(before, 1)
    put_unit(after, 0, second)
    put_unit(after, 1, first)
    put_unit(after, 2, read_unit(before, 2)[:12] + b"\x00" * 8)
    put_unit(before, 3, bytes(20))
    account = only(compare(before, after))
    assert (account.moved, account.corrected, account.lost, account.gained) == (2, 1, 0, 1)
    assert account.before == account.kept + 3 and account.after == account.before + 1
    assert account.balanced and account.lost_ranges == ()


def test_units_of_records_in_the_log_are_lost_only_as_planned(pair: tuple[Path, Path]) -> None:
    before, after = pair
    for index in (2, 3, 7):
        put_unit(after, index, bytes(20))
    account = only(compare(before, after))
    assert account.lost == account.unplanned == 3 and not account.balanced
    assert account.lost_ranges == (OffsetRange(2, 4, 2), OffsetRange(7, 8, 1))
    named = Loss("unit", 3, "Seg0", 0, 2, 7)
    assert only(compare(before, after, named)).balanced
    assert only(compare(before, after, Loss("unit", 3, "Seg0"))).balanced
    assert only(compare(before, after, Loss("unit", 3, "Seg0", 1, 2, 7))).unplanned == 3
    assert only(compare(before, after, Loss("unit", 2, "Seg0", 0, 2, 3))).unplanned == 1
    assert only(compare(before, after, Loss("record", 3, start_offset=0, end_offset=1 << 40))).balanced


def test_units_that_lead_to_nothing_may_go(pair: tuple[Path, Path]) -> None:
    before, after = pair
    wrong = read_unit(before, 4)
    put_unit(before, 4, (1 << 40).to_bytes(8, "big") + wrong[8:])
    put_unit(before, 5, (3).to_bytes(8, "big") + wrong[8:])
    put_unit(after, 4, bytes(20))
    put_unit(after, 5, bytes(20))
    account = only(compare(before, after))
    assert account.lost == 2 and account.unplanned == 0 and account.balanced


def test_a_queue_that_is_gone_and_one_that_is_new(pair: tuple[Path, Path]) -> None:
    before, after = pair
    shutil.rmtree(after / "consumequeue" / "Seg0" / "0")
    gone = only(compare(before, after))
    assert gone.after == 0 and gone.lost == gone.before == gone.unplanned > 0 and not gone.balanced
    made = only(compare(after, before))
    assert made.before == 0 and made.gained == made.after == gone.before and made.balanced


def test_beyond_the_limit_units_are_told_by_place_alone(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = pair
    for index in range(0, 8, 2):
        put_unit(after, index, read_unit(before, index + 1))
    put_unit(after, 9, bytes(20))
    monkeypatch.setattr(module, "BLOCK_COUNT", 2)
    monkeypatch.setattr(module, "ROW_LIMIT", 1)
    account = only(compare(before, after))
    assert account.before == account.kept + account.corrected + account.moved + account.lost
    assert account.lost == 1 and account.corrected + account.moved == 4


def test_batch_queues(store_dir: Directory, tmp_path: Path) -> None:
    before = store_dir("5.0.0-innerbatch")
    after = Path(shutil.copytree(before, tmp_path / "after"))
    queue = next(queue for queue in open_store(after).queues if queue.kind == "batch")
    file = queue.files[0].path
    data = file.read_bytes()
    file.write_bytes(bytes(46) + data[46:])
    (account,) = compare(before, after).queues
    assert account.kind == "batch" and account.lost == 1 and account.unplanned == 1


def test_records(pair: tuple[Path, Path]) -> None:
    before, after = pair
    names = sorted(path.name for path in (after / "commitlog").iterdir())
    with (after / "commitlog" / names[1]).open("r+b") as stream:
        stream.seek(0)
        stream.write(bytes(8))
    found = compare(before, after).records
    assert found is not None and found.kind == "log"
    assert found.lost == found.unplanned == found.before - found.kept == 1 and not found.balanced
    start = int(names[1])
    assert found.lost_ranges[0].start == start
    planned = Loss("byte", 8, start_offset=start, end_offset=start + 8)
    again = compare(before, after, planned)
    assert again.records is not None and again.records.balanced and again.balanced
    back = compare(after, before).records
    assert back is not None and back.gained == 1 and back.lost == 0 and back.balanced


def test_renamed_files_keep_their_records(pair: tuple[Path, Path]) -> None:
    before, after = pair
    names = sorted(path.name for path in (after / "commitlog").iterdir())
    (after / "commitlog" / names[-1]).rename(after / "commitlog" / "00000000000001000000")
    found = compare(before, after)
    assert found.records is not None
    assert found.records.kept == found.records.before == found.records.after > 0
    assert found.unchanged_log_file_count == 4


def test_records_that_are_told_their_place_and_files_that_change_names(pair: tuple[Path, Path]) -> None:
    before, after = pair
    names = sorted(path.name for path in (after / "commitlog").iterdir())
    for root, offset in ((before, 77), (after, int(names[0]))):
        with (root / "commitlog" / names[0]).open("r+b") as stream:
            stream.seek(28)
            stream.write(offset.to_bytes(8, "big"))
    second, third = (after / "commitlog" / name for name in names[1:3])
    third.unlink()
    second.rename(third)
    (after / "commitlog" / names[1]).write_bytes(b"")
    shutil.copyfile(before / "commitlog" / names[2], after / "commitlog" / names[1])
    found = compare(before, after)
    assert found.records is not None
    assert found.records.lost == found.records.gained == 0 and found.records.balanced
    assert found.unchanged_log_file_count == 2
