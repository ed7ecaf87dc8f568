"""A check finds the same in short queues as it does when it goes through each of them by itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.queues.unitruns import short_queues
from rocketfsck.verify.report import Report
from rocketfsck.verify.tasks.task import Context

from tests.unit.query.maker import make, message, reopen

Damage = Callable[[bytearray], None]


def _put(index: int, *values: int) -> Damage:
    def damage(data: bytearray) -> None:
        data[20 * index : 20 * index + 20] = struct.pack(">qiq", *values)

    return damage


def _nothing(_data: bytearray) -> None:
    pass


def _swap(data: bytearray) -> None:
    data[20:40], data[40:60] = data[40:60], data[20:40]


def _size(data: bytearray) -> None:
    data[48:52] = struct.pack(">i", 1)


def _tail(data: bytearray) -> None:
    data.extend(b"\0\0\1\0\0")


DAMAGES: dict[str, Damage] = {
    "none": _nothing,
    "hole": _put(2, 0, 0, 0),
    "empty": lambda data: data.__setitem__(slice(None), bytes(len(data))),
    "first unit gone": _put(0, 0, 0, 0),
    "blank in front": _put(0, 0, (1 << 31) - 1, 0),
    "blank in the middle": _put(3, 0, (1 << 31) - 1, 0),
    "negative offset": _put(2, -5, 100, 0),
    "far offset": _put(4, (1 << 63) - 1, 100, 0),
    "size": _size,
    "ext address": _put(2, 300, 100, -(1 << 40)),
    "order": _swap,
    "behind the end": _put(8, 500, 100, 0),
    "bytes of no unit": _tail,
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("without_first", [False, True])
def test_findings_are_the_same(
    name: str, without_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, [message(number, queue_id=number % 4) for number in range(24)])
    path = made.queues[1].files[0].path
    data = bytearray(path.read_bytes())
    DAMAGES[name](data)
    path.write_bytes(data)
    if without_first:
        made.commitlog.files[0].path.unlink()
    store = reopen(tmp_path)

    def check() -> Report:
        report = check_store(store, CheckOptions(level="full", now_timestamp=1_800_000_000_000, jobs=1))
        return replace(report, seconds=0.0)

    short = short_queues(Context(store, "full", 0), range(len(store.queues)))
    taken = {number for number, what in short.items() if isinstance(what, tuple)}
    assert taken >= {0, 2, 3}
    assert (1 in taken) is (name in ("none", "size"))
    found = check()
    monkeypatch.setattr("rocketfsck.verify.queues.unitruns.short_queues", lambda *_: {})
    assert found == check()
    assert without_first or name == "none" or found.findings
