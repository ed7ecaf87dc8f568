"""Verdicts against what the real store code does: stores damaged as people damage them, started and repaired.

The store has deleted topics, one of them made again, delays, transactions, light queues, batch queues, and
what pops leave. By day every sixth damage meets one version; nightly all meet all, on a plain store, too.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import pytest

from tests.conftest import NIGHTLY
from tests.oracle.broker import Answer, run_jobs, versions_of
from tests.oracle.conftest import Needs
from tests.oracle.handmade import DAMAGES
from tests.oracle.scenarios import Scenario
from tests.oracle.trials import Trial, not_brought_back, said_otherwise, sound_store, tried, truth_of
from tests.oracle.verdicts import Happened, Truth, confusion

pytestmark = pytest.mark.oracle

JUDGED = versions_of("4.9.8", "5.1.4", "5.3.3", "5.4.0", "5.5.0")
MIXED = Scenario(
    "mixed", mix="everything,body=log:1:1200,keys=0:3,words=200,topics=4,queues=2,rate=10", count=640
)
PLAIN = Scenario("plain", mix="plain,body=log:1:2000,keys=0:5,words=50,topics=4,queues=2,rate=10", count=500)
JOBS_AT_ONCE = 40


@dataclass(frozen=True, slots=True)
class Case:
    scenario: Scenario
    version: str
    damage: str

    def __str__(self) -> str:
        return f"{self.scenario}-{self.version}-{self.damage}"


CASES = [
    Case(scenario, version, damage)
    for scenario in ((MIXED, PLAIN) if NIGHTLY else (MIXED,))
    for place, version in enumerate(JUDGED)
    for number, damage in enumerate(DAMAGES)
    if NIGHTLY or number % (6 * len(JUDGED)) == place * 6
]

Outcome = tuple[Trial, Truth, Truth]
"""What was said, what a start came to, and a start after the repair."""
Outcomes = Callable[[Case], Outcome | None]


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def outcome(workers: Executor, needs_broker: Needs, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Damages, judges, repairs and starts all stores of a scenario and a version at once; gives one."""
    place = tmp_path_factory.mktemp("verdicts")

    @cache
    def of(scenario: Scenario, version: str) -> dict[str, Outcome]:
        needs_broker(version)
        folder = place / f"{scenario}-{version}"
        sound = sound_store(scenario, version, folder / "base")
        names = [case.damage for case in CASES if (case.scenario, case.version) == (scenario, version)]
        waiting = [workers.submit(tried, sound, name, folder / name) for name in names]
        trials = [trial for trial in (future.result() for future in waiting) if not _hangs(trial)]
        stores = [(trial, store) for trial in trials for store in (trial.started, trial.repaired)]
        answers: list[Answer] = []
        for first in range(0, len(stores), JOBS_AT_ONCE):
            some = stores[first : first + JOBS_AT_ONCE]
            answers += run_jobs(version, [sound.job(store) for _, store in some])
        truths = [
            truth_of(trial, store, answer) for (trial, store), answer in zip(stores, answers, strict=True)
        ]
        for name in names:
            shutil.rmtree(folder / name)
        pairs = zip(truths[::2], truths[1::2], strict=True)
        return {
            trial.name: (trial, started, repaired)
            for trial, (started, repaired) in zip(trials, pairs, strict=True)
        }

    return lambda case: of(case.scenario, case.version).get(case.damage)


def _hangs(trial: Trial) -> bool:
    """Whether the start is said never to end, so that it cannot be tried."""
    return any("waits for" in start.reason or "never ends" in start.reason for start in trial.verdict.starts)


def _of(case: Case, outcome: Outcomes) -> Outcome:
    found = outcome(case)
    if found is None:
        pytest.skip("the start is said never to end")
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_said_happens(case: Case, outcome: Outcomes) -> None:
    trial, started, _ = _of(case, outcome)
    assert said_otherwise(trial, started) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_repair_brings_back_what_is_there(case: Case, outcome: Outcomes) -> None:
    trial, _, repaired = _of(case, outcome)
    assert not_brought_back(trial, repaired) == []


def test_table_of_confusion(
    outcome: Outcomes, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    by_case = {str(case): result for case in CASES if (result := outcome(case)) is not None}
    found = by_case.values()
    said: dict[str, tuple[str, Happened]] = {
        name: (trial.verdict.state, started.happened) for name, (trial, started, _) in by_case.items()
    }
    record_property("confusion", json.dumps(said))
    rows = list(said.values())
    with capsys.disabled():
        print(f"\n{confusion(rows)}")
    assert {state for state, happened in rows if happened == "refused"} <= {"refused"}
    assert len({trial.name for trial, _, _ in found}) >= (40 if NIGHTLY else 10)
    assert {trial.sound.version for trial, _, _ in found} == {*JUDGED}
