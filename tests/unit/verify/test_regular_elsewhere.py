"""What is regular in timers, DLedger, compaction, tiered storage, databases and configs. ADR 0011."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE, TIMER_UNIT_DTYPE
from rocketfsck.formats.rocks import PopKey, encode_pop_key
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import Directory
from tests.databases import change_rows, copied_store, database_of, rows_of
from tests.unit.verify.test_dledger_rules import DATA, DATA_SIZE, DLedger

NOW = 1_900_000_000_000
FEW = slice(0, 3)
ALL = slice(None)
Change = Callable[[Path, slice], None]


def checked(root: Path) -> Report:
    return check_store(open_store(root), CheckOptions(level="full", jobs=1, now_timestamp=NOW))


def add(paths: Iterable[Path], step: int, pos: int, part: slice) -> None:
    """Add to the byte at `pos` of each row of `step` bytes that is not all zeros."""
    rows = []
    for path in sorted(paths):
        data = path.read_bytes()
        rows += [(path, at) for at in range(0, len(data) // step * step, step) if any(data[at : at + step])]
    for path, at in rows[part]:
        changed = bytearray(path.read_bytes())
        changed[at + pos] = changed[at + pos] + 1 & 0xFF
        path.write_bytes(changed)


def of_slots(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of a field of each timer slot in use."""

    def of(root: Path, part: slice) -> None:
        path = root / "timerwheel"
        slots = np.fromfile(path, TIMER_SLOT_DTYPE)
        used = np.flatnonzero(slots["num"] > 0)[part]
        slots[name][used] = change(slots[name][used])
        slots.tofile(path)

    return of


def of_timer_units(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of a field of each unit of the timer log."""

    def of(root: Path, part: slice) -> None:
        path = root / "timerlog" / offset_to_filename(0)
        data = bytearray(path.read_bytes())
        size = TIMER_UNIT_DTYPE.itemsize
        rows = np.frombuffer(data, TIMER_UNIT_DTYPE, len(data) // size)
        used = np.flatnonzero(rows["size"] > 0)[part]
        rows[name][used] = change(rows[name][used])
        path.write_bytes(data)

    return of


def bodies(pattern: str) -> Change:
    """Another bodyCRC in records, which begin with totalSize and magic."""

    def of(root: Path, part: slice) -> None:
        places = []
        for path in sorted(root.glob(pattern)):
            data = path.read_bytes()
            pos = 0
            while (size := int.from_bytes(data[pos : pos + 4])) > 48 and data[
                pos + 4 : pos + 6
            ] == b"\xda\xa3":
                places.append((path, pos))
                pos += size
        for path, pos in places[part]:
            changed = bytearray(path.read_bytes())
            changed[pos + 11] ^= 0x5A
            path.write_bytes(changed)

    return of


def tiered_tags(root: Path, part: slice) -> None:
    add(root.glob("tiered/*/*/*/*/CONSUME_QUEUE/*"), 20, 19, part)


def compacted_store_times(root: Path, part: slice) -> None:
    """The last byte of the storeTime of units, which begins behind offset, size and tagsCode."""
    for path in sorted(root.glob("compaction/compactionCq/*/*/*")):
        data = bytearray(path.read_bytes())
        used = [at for at in range(0, len(data) - 45, 46) if any(data[at + 8 : at + 12])]
        for at in used[part]:
            data[at + 27] ^= 0x55
        path.write_bytes(data)


CASES: dict[str, tuple[str, Change, RuleName, set[str]]] = {
    "numbers of slots": (
        "5.5.0-timer",
        of_slots("slotTime", lambda values: values + 1),
        RuleName.TIMER_SLOT_NUMBER,
        {"timerlog", "timerwheel"},
    ),
    "links of timer units": (
        "5.5.0-timer",
        of_timer_units("prevPos", lambda values: values + 7),
        RuleName.TIMER_UNIT_LINK,
        {"timerlog", "timerwheel"},
    ),
    "hashes of real topics": (
        "5.5.0-timer",
        of_timer_units("hashCodeOfRealTopic", lambda values: values + 1),
        RuleName.TIMER_UNIT_CONTENT,
        {"timerlog", "timerwheel"},
    ),
    "bodies of tiered records": (
        "5.5.0-tiered",
        bodies("tiered/*/*/*/*/COMMIT_LOG/*"),
        RuleName.TIERED_BODY_CRC,
        {"tiered"},
    ),
    "bodies of compacted records": (
        "5.5.0-compaction",
        bodies("compaction/compactionLog/*/*/*"),
        RuleName.COMPACTION_BODY_CRC,
        {"compaction"},
    ),
    "tag codes of tiered units": ("5.5.0-tiered", tiered_tags, RuleName.TIERED_UNIT, {"tiered"}),
    "times of compacted units": (
        "5.5.0-compaction",
        compacted_store_times,
        RuleName.COMPACTION_UNIT,
        {"compaction"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_regular_is_no_damage(real_copy: Directory, name: str) -> None:
    store, change, rule, areas = CASES[name]
    root = real_copy(store)
    assert rule not in checked(root).counts
    change(root, ALL)
    report = checked(root)
    assert rule not in report.counts
    (said,) = (item for item in report.findings if item.rule == RuleName.REGULAR_DEVIATION)
    assert said.found["rules"] == rule
    assert areas <= unknown_areas(report.findings).keys()
    changed = {action.target.partition("/")[0] for action in make_plan(open_store(root), report).actions}
    assert not changed & areas


@pytest.mark.parametrize("name", CASES)
def test_single_places_are_damage(real_copy: Directory, name: str) -> None:
    store, change, rule, _ = CASES[name]
    root = real_copy(store)
    change(root, FEW)
    report = checked(root)
    assert report.counts.get(rule)
    assert RuleName.REGULAR_DEVIATION not in report.counts


@pytest.mark.parametrize(
    ("count", "rule"), [(45, RuleName.REGULAR_DEVIATION), (3, RuleName.DLEDGER_UNUSED_FIELD)]
)
def test_a_field_of_dledger_entries_that_nobody_wrote(tmp_path: Path, count: int, rule: RuleName) -> None:
    store = DLedger(tmp_path / "store")
    store.put(45)
    for pos in list(store.places.values())[:count]:
        path = store.root / DATA / offset_to_filename(pos // DATA_SIZE * DATA_SIZE)
        data = bytearray(path.read_bytes())
        data[pos % DATA_SIZE + 35] = 9  # the last byte of channel, behind magic, size, index, term and pos
        path.write_bytes(data)
    report = checked(store.root)
    both = {RuleName.REGULAR_DEVIATION, RuleName.DLEDGER_UNUSED_FIELD}
    assert both & report.counts.keys() == {rule}
    if count == 45:
        assert "dledger-n0" in unknown_areas(report.findings)


@pytest.mark.parametrize(
    ("part", "rule"), [(ALL, RuleName.REGULAR_DEVIATION), (slice(0, 1), RuleName.CONSUMER_OFFSET_NEGATIVE)]
)
def test_negative_offsets_of_groups(store_copy: Directory, part: slice, rule: RuleName) -> None:
    root = store_copy("5.3.3-multiseg")
    path = root / "config" / "consumerOffset.json"
    table = {f"Seg{number % 3}@group{number}": {"0": 1, "1": 1} for number in range(10)}
    for name in list(table)[part]:
        table[name] = {"0": -1, "1": -1}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"offsetTable": table}))
    both = {RuleName.REGULAR_DEVIATION, RuleName.CONSUMER_OFFSET_NEGATIVE}
    assert both & checked(root).counts.keys() == {rule}


@pytest.mark.parametrize(("part", "rule"), [(ALL, RuleName.REGULAR_DEVIATION), (FEW, RuleName.ROW_DIFFERS)])
def test_tag_codes_of_rows_of_a_database(
    real_dir: Directory, tmp_path: Path, part: slice, rule: RuleName
) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    rows = rows_of(database_of(root, "consumequeue"))["default"]
    units = {key: value for key, value in rows.items() if len(value) == 28 and any(value[12:20])}
    changed = {key: units[key][:19] + bytes([units[key][19] ^ 1]) + units[key][20:] for key in [*units][part]}
    change_rows(root, "consumequeue", "default", changed)
    both = {RuleName.REGULAR_DEVIATION, RuleName.ROW_DIFFERS}
    assert both & checked(root).counts.keys() == {rule}


@pytest.mark.parametrize(("count", "rule"), [(12, RuleName.REGULAR_DEVIATION), (3, RuleName.POP_ROW)])
def test_times_of_pop_rows(real_dir: Directory, tmp_path: Path, count: int, rule: RuleName) -> None:
    root = copied_store(real_dir("5.5.0-pop-kv-killed"), tmp_path / "store")
    before = dict.fromkeys(rows_of(database_of(root, "kvStore")).get("popState", {}))
    rows = {}
    for number in range(12):
        key = encode_pop_key(PopKey(1500, b"g", b"t", 1, number))
        stated = {"popTime": 1000, "invisibleTime": 500 + (number < count)}
        rows[key] = json.dumps(
            {**stated, "groupId": "g", "topicId": "t", "queueId": 1, "offset": number}
        ).encode()
    change_rows(root, "kvStore", "popState", {**before, **rows})
    both = {RuleName.REGULAR_DEVIATION, RuleName.POP_ROW}
    assert both & checked(root).counts.keys() == {rule}
