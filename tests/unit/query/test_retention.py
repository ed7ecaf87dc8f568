"""What retention deletes, who loses messages by it, and when the disk is full."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.query.retention import HOUR_MS, Retention, foresee_retention, retention_rules
from rocketfsck.query.view import StoreView
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Event

from tests.unit.query.maker import GEOMETRY, NOW, make, message

MIDNIGHT = 1_699_920_000_000
"""2023-11-14, the day of `NOW`, at 00:00 UTC."""
TOTAL = 1000 * 4096


def _message(number: int, **more: Any) -> Any:
    """A message an hour."""
    return message(number, store_timestamp=NOW + HOUR_MS * number, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    offsets = {"Order@none": {0: 0}, "Order@some": {0: 30}, "Order@all": {0: 79}, "Order@far": {0: 1000}}
    config = {"consumerOffset.json": {"offsetTable": {**offsets, "Nothing@none": {0: 0}}}}
    return make(tmp_path, [_message(number) for number in range(80)], config=config)


def _with(store: Store, **settings: str) -> Store:
    """The store, opened with more settings."""
    conf = store.root.parent / "more.conf"
    sizes = f"mappedFileSizeCommitLog={GEOMETRY.commitlog_file_size}\n"
    sizes += f"mappedFileSizeConsumeQueue={GEOMETRY.consumequeue_file_size}\n"
    conf.write_text(sizes + "".join(f"{name}={value}\n" for name, value in settings.items()))
    return open_store(store.root, broker_conf=conf)


def _foreseen(store: Store, zone: str = "UTC", as_of: int = NOW) -> Retention:
    with StoreView(store) as view:
        return foresee_retention(view, retention_rules(store, zone, as_of))


def _hour(timestamp: int | None) -> float | None:
    return None if timestamp is None else (timestamp - MIDNIGHT) / HOUR_MS


def test_a_file_goes_in_the_hour_after_it_expires_and_the_last_one_stays(store: Store) -> None:
    found = _foreseen(store).files
    assert [file.start_offset for file in found] == [4096 * number for number in range(len(found))]
    assert len(found) == 3
    for file, following in pairwise(found):
        assert following.first_timestamp is not None and file.delete_timestamp is not None
        assert file.expires_timestamp == following.first_timestamp + 72 * HOUR_MS
        assert 0 <= file.delete_timestamp - file.expires_timestamp < 24 * HOUR_MS
        assert (_hour(file.delete_timestamp) or 0) % 24 == 4
    assert (found[-1].expires_timestamp, found[-1].delete_timestamp) == (None, None)


def test_a_file_that_expired_long_ago_goes_in_the_next_hour(store: Store) -> None:
    later = MIDNIGHT + 1000 * 24 * HOUR_MS
    assert _foreseen(store, as_of=later).files[0].delete_timestamp == later + 4 * HOUR_MS
    now = later + 4 * HOUR_MS + 5
    assert _foreseen(store, as_of=now).files[0].delete_timestamp == now


@pytest.mark.parametrize(
    ("when", "zone", "hours"),
    [("04;16", "UTC", {4, 16}), ("4", "Asia/Shanghai", {20}), ("04", "Asia/Kolkata", {22.5})],
)
def test_the_hours_are_those_of_the_setting_in_the_time_zone(
    store: Store, when: str, zone: str, hours: set[float]
) -> None:
    found = _foreseen(_with(store, deleteWhen=when, fileReservedTime="1"), zone).files[:-1]
    # a file may expire within such an hour
    starts = {((_hour(file.delete_timestamp) or 0) - 0.5) // 1 + 0.5 for file in found}
    assert all(any(0 <= (start + 0.5) % 24 - hour <= 1 for hour in hours) for start in starts)


def test_a_setting_without_hours_deletes_nothing(store: Store) -> None:
    for when in ("x", "24", "04;x", ""):
        found = _foreseen(_with(store, deleteWhen=when)).files
        assert {file.delete_timestamp for file in found} == {None}
    with pytest.raises(UsageError, match="not a time zone"):
        _foreseen(store, "Nowhere/No")


def test_a_younger_file_keeps_those_after_it(tmp_path: Path) -> None:
    late = NOW + 500 * HOUR_MS
    events: list[Event] = [
        message(number, store_timestamp=late if 20 <= number < 40 else NOW) for number in range(80)
    ]
    expiries = [file.expires_timestamp for file in _foreseen(make(tmp_path, events)).files[:-1]]
    assert expiries == sorted(expiries, key=lambda item: item or 0)
    assert expiries[-1] == late + 72 * HOUR_MS


def test_groups_lose_what_they_have_not_consumed(store: Store) -> None:
    found = _foreseen(store)
    counts: dict[str, int] = {}
    for row in found.unconsumed:
        assert row.topic == "Order" and row.file in {file.file for file in found.files[:-1]}
        counts[row.group] = counts.get(row.group, 0) + row.message_count
    with StoreView(store) as view:
        queue = view.queue("Order", 0)
        assert queue is not None
        stays = queue.first_index_at(found.files[-1].start_offset)
    assert 30 < stays < 79
    assert counts == {"none": stays, "some": stays - 30}


def _disk(monkeypatch: pytest.MonkeyPatch, used_percent: int) -> None:
    free = TOTAL * (100 - used_percent) // 100
    status = SimpleNamespace(f_frsize=1, f_blocks=TOTAL, f_bfree=free, f_bavail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: status)


def test_the_disk_is_full_when_growth_has_filled_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _disk(monkeypatch, 80)
    found = _foreseen(_with(store, deleteWhen="x"))
    assert found.growth_per_day is not None
    early, unexpired, _, full = found.levels
    assert (early.used_percent, early.reached_timestamp) == (75, NOW)
    for level, percent in ((unexpired, 5), (full, 20)):
        days = ((level.reached_timestamp or 0) - NOW) / (24 * HOUR_MS)
        assert days == pytest.approx(TOTAL * percent / 100 / found.growth_per_day, rel=1e-3)


def test_retention_keeps_a_disk_from_filling(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _disk(monkeypatch, 70)
    after = NOW + 80 * HOUR_MS
    levels = _foreseen(_with(store, diskMaxUsedSpaceRatio="99"), as_of=after).levels
    assert [level.used_percent for level in levels] == [95, 85, 90, 100]
    assert {level.reached_timestamp for level in levels} == {None}
