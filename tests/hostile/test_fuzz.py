"""The fuzzer over all commands: 100 mutants always, 100,000 by `make nightly`. Any number by hand:

python -m tests.hostile.fuzz --seeds 0-99999 --jobs 2
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.fuzz import scenarios
from tests.hostile.fuzz.cases import Case, Scenario, as_code, draw_case
from tests.hostile.fuzz.drawing import survey
from tests.hostile.fuzz.laws import Violation
from tests.hostile.fuzz.minimise import minimise
from tests.hostile.fuzz.mutations import KINDS, Mutation
from tests.hostile.fuzz.scenarios import Scene
from tests.hostile.fuzz.seen import BLIND, CHECKED, PARTLY
from tests.hostile.fuzz.spots import find_spots
from tests.hostile.fuzz.subjects import build_subjects
from tests.hostile.fuzz.workers import Outcome, Pool

ROOT = Path(__file__).parents[2]
COUNT, CHUNK = 100, 20  # each chunk warms up a process of its own
NIGHTLY_COUNT, NIGHTLY_CHUNK = 100_000, 5_000

VIOLATION = Violation("crash", "check …", "somewhere")
EVAL_NAMES = {"Case": Case, "Mutation": Mutation, "Scenario": Scenario}


def _hangs(_scene: Scene, _scenario: Scenario) -> int:
    time.sleep(600)
    return 0


def _dies(_scene: Scene, _scenario: Scenario) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def _eats(_scene: Scene, _scenario: Scenario) -> int:
    return len(bytearray(b"x") * (700 << 20)) & 0


def _touches(scene: Scene, _scenario: Scenario) -> int:
    return READ(scene, Scenario("read", ("dump", "{store}", "-o", str(scene.folder / "victim" / "new")))) & 0


READ = scenarios.STORIES["read"]
STORIES: dict[str, Callable[[Scene, Scenario], int]] = {
    "hang": _hangs,
    "crash": _dies,
    "memory": _eats,
    "read-only": _touches,
}


def _fuzz(first: int, count: int) -> None:
    """Run so many seeds in a process of its own: what it needs and forks is not this one's."""
    seeds = f"{first}-{first + count - 1}"
    command = [sys.executable, "-m", "tests.hostile.fuzz", "--jobs", "1", "--seeds", seeds]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    assert f"mutants      {count}\n" in ended.stdout


def test_several_workers_come_to_an_end(tmp_path: Path) -> None:
    grounds = {name: survey(subject) for name, subject in build_subjects(tmp_path).items()}
    with Pool(grounds, tmp_path, 3) as pool:
        outcomes = list(pool.run(draw_case(seed, grounds) for seed in range(6)))
        workers = list(pool._workers)
    assert sorted(outcome.case.seed for outcome in outcomes) == list(range(6))
    assert len(workers) == 3
    for worker in workers:
        with pytest.raises(ChildProcessError):
            os.waitpid(worker.pid, os.WNOHANG)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_mutants_of_all_commands(first: int) -> None:
    _fuzz(first, CHUNK)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(COUNT, NIGHTLY_COUNT, NIGHTLY_CHUNK))
def test_more_mutants_of_all_commands(first: int) -> None:
    _fuzz(first, min(NIGHTLY_CHUNK, NIGHTLY_COUNT - first))


def test_every_field_is_checked_or_says_why_not(tmp_path: Path) -> None:
    labels = {
        "record.body sealed",
        "dledger record.body sealed",
        "compaction record.body sealed",
        "tiered record.body sealed",
    }
    for subject in build_subjects(tmp_path).values():
        labels |= {spot.label for spot in find_spots(subject.path)}
    tables = (CHECKED, frozenset(PARTLY), frozenset(BLIND))
    assert frozenset().union(*tables) == labels
    assert sum(map(len, tables)) == len(labels)


def test_a_case_is_the_same_every_time_and_gets_smaller(tmp_path: Path) -> None:
    grounds = {name: survey(subject) for name, subject in build_subjects(tmp_path).items()}
    cases = [draw_case(seed, grounds) for seed in range(300)]
    assert cases == [draw_case(seed, grounds) for seed in range(300)]
    assert {mutation.kind for case in cases for mutation in case.mutations} >= KINDS.keys() - {"create"}
    case = next(case for case in cases if len(case.mutations) > 2 and len(case.scenarios) > 2)
    culprit = case.mutations[1]

    def run(tried: Case) -> Outcome:
        broken = culprit in tried.mutations and not tried.mutations[0].label.startswith("?")
        return Outcome(tried, (VIOLATION,) if broken else ())

    smaller = minimise(case, VIOLATION, run, tries=99)
    assert smaller.mutations == (culprit,)
    assert len(smaller.scenarios) == 1
    assert eval(as_code(smaller).strip().removesuffix(","), EVAL_NAMES) == smaller


def test_what_breaks_a_law_is_found(tmp_path: Path) -> None:
    """The oracles themselves: a hang, a death, too much memory, a changed store are found and named."""
    ground = survey(build_subjects(tmp_path)["plain-4.4.0"])
    for law, story in STORIES.items():
        stories = dict(scenarios.STORIES)
        scenarios.STORIES.update({"read": story})
        try:
            with Pool({ground.subject.name: ground}, tmp_path, 1, 3 if law == "hang" else 60) as pool:
                (outcome,) = pool.run([Case(0, ground.subject.name, (), (Scenario("read"),))])
        finally:
            scenarios.STORIES.clear()
            scenarios.STORIES.update(stories)
        assert [found.law for found in outcome.violations] == [law]
