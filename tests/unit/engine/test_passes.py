"""What passes take: time, bytes, memory."""

from __future__ import annotations

import time

import numpy as np
import pytest

from rocketfsck.engine import passes as module
from rocketfsck.engine.passes import Passes, measured, memory_size, peak_memory_size, reset_peak_memory


def test_a_pass_has_its_time_and_rate() -> None:
    passes = Passes()
    with passes.measure("one", 1000):
        time.sleep(0.01)
    passes.add("two", 2.0, 4096, task_count=3)
    passes.add("two a", 1.0, 4096, detail=True)
    one, two, detail, total = passes.finish()
    assert one.name == "one"
    assert one.seconds >= 0.01
    assert one.byte_rate == pytest.approx(1000 / one.seconds, rel=0.01)
    assert (two.byte_rate, two.task_count) == (2048.0, 3)
    assert (detail.detail, detail.peak_memory_size) == (True, None)
    assert total.name == "total"
    assert total.seconds >= one.seconds
    assert total.peak_memory_size is not None and one.peak_memory_size is not None
    assert total.peak_memory_size >= one.peak_memory_size


def test_a_pass_that_fails_is_kept() -> None:
    passes = Passes()
    with pytest.raises(ValueError, match="so"), passes.measure("bad"):
        raise ValueError("so")
    assert [item.name for item in passes.passes] == ["bad"]


def test_nobody_wants_to_know() -> None:
    with measured(None, "one"):
        pass
    passes = Passes()
    with measured(passes, "one"):
        pass
    assert len(passes.passes) == 1


def test_the_peak_is_seen_and_forgotten() -> None:
    reset_peak_memory()
    before = peak_memory_size()
    big = np.ones(64 << 20, np.uint8)
    during = peak_memory_size()
    assert before is not None and during is not None
    assert during >= before + (60 << 20)
    del big
    now = memory_size()
    assert now is not None and now < during
    reset_peak_memory()
    after = peak_memory_size()
    assert after is not None and after <= during


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Path", _NoProc)
    assert memory_size() is None
    assert peak_memory_size()
    reset_peak_memory()


class _NoProc:
    def __init__(self, _name: str) -> None:
        pass

    def read_text(self, *_arguments: str) -> str:
        raise FileNotFoundError

    def write_text(self, *_arguments: str) -> int:
        raise FileNotFoundError
