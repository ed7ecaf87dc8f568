"""The budget: what a block changes, and that work on other threads, or elsewhere, has it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pytest

from rocketfsck.common.budget import Budget, core_count, current, job_count, within
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.seam import bound
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.threads.pieces import in_order


def seen(_task: int) -> Budget:
    return current()


@dataclass
class Looking:
    """A worker that says what it may use."""

    number: int

    def run(self, _task: int) -> Budget:
        return current()

    def close(self) -> None:
        return


def test_blocks_change_what_they_name_and_never_give_more_jobs() -> None:
    assert current() == Budget()
    with within(jobs=3, compiled=True):
        with within(jobs=8, file_threads=2, reads_ahead=False):
            assert current() == Budget(3, True, 2, False)
        with within(jobs=0):
            assert job_count() == core_count() == 1
        with within():
            assert current() == Budget(3, True)
    assert current() == Budget()


def test_more_jobs_than_cores_are_no_more_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    assert (job_count(), core_count()) == (2, 2)
    with within(jobs=8):
        assert (job_count(), core_count(), LocalEngine().job_count) == (8, 2, 8)


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_threads_of_a_block_have_its_budget(jobs: int) -> None:
    with within(jobs=jobs, compiled=False):
        budget = current()
        assert [outcome.result for outcome in LocalEngine().run(seen, [1, 2, 3])] == [budget] * 3
        assert list(in_order([1, 2, 3], Looking, jobs=jobs)) == [budget] * 3


def test_a_kernel_takes_the_budget_along() -> None:
    with within(jobs=2, file_threads=4):
        packed, budget = pickle.dumps(bound(seen)), current()
    assert pickle.loads(packed)(1) == budget
    assert current() == Budget()


def test_what_is_decided_holds_for_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    with within(compiled=False):
        assert not compiled_wanted(1 << 40)
    with within(compiled=compiled_wanted(1)):
        monkeypatch.setenv("ROCKETFSCK_KERNELS", "plain")
        assert compiled_wanted()
    assert not compiled_wanted(1 << 40)
