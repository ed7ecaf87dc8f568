"""Undo after the real store code has worked on a repaired store: every byte of before comes back.

Damaged, repaired, started, sent to, stopped or killed, undone. By day some of the damages, nightly all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from rocketfsck.errors import RocketfsckError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.law import assumed_names
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer import EndState

from tests.conftest import NIGHTLY
from tests.oracle.broker import run_jobs, versions_of
from tests.oracle.conftest import Needs
from tests.oracle.handmade import DAMAGES
from tests.oracle.scenarios import Scenario, appended, options_of
from tests.oracle.trials import SoundStore, sound_store
from tests.unit.repair.core.plans import snapshot

pytestmark = pytest.mark.oracle

VERSIONS = versions_of("4.9.8", "5.3.3", "5.5.0")
MIXED = Scenario(
    "mixed", mix="everything,body=log:1:1200,keys=0:3,words=200,topics=4,queues=2,rate=10", count=640
)


@dataclass(frozen=True, slots=True)
class Case:
    version: str
    damage: str
    killed: bool

    def __str__(self) -> str:
        return f"{self.version}-{self.damage}-{'killed' if self.killed else 'stopped'}"


CASES = [
    Case(version, name, killed)
    for place, version in enumerate(VERSIONS)
    for number, name in enumerate(DAMAGES)
    for killed in (False, True)
    if NIGHTLY or (number % 24 == 4 * place and killed == bool(number % 48 < 24))
]
JOBS_AT_ONCE = 30


@dataclass(frozen=True, slots=True)
class Worked:
    """A repaired store that a broker has worked on, and what it was before the repair. Without `repaired`
    nothing was done to it."""

    root: Path
    before: Mapping[str, tuple[int, int, bytes]]
    repaired: bool


@pytest.fixture(scope="module")
def worked(needs_broker: Needs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Worked]:
    """Some stores at a time are damaged, repaired, and handed to the broker of their version."""
    place = tmp_path_factory.mktemp("undone")
    sound = cache(lambda version: sound_store(MIXED, version, place / version))

    @cache
    def some(version: str, first: int) -> dict[Case, Worked]:
        needs_broker(version)
        base = sound(version)
        cases = [case for case in CASES if case.version == version][first : first + JOBS_AT_ONCE]
        made = {case: _repaired(base, case.damage, place / str(case) / "store") for case in cases}
        puts = appended(options_of(base.scenario, version, EndState.CLEAN))
        jobs = [
            replace(base.job(store.root), append=puts, kill=case.killed)
            for case, store in made.items()
            if store.repaired
        ]
        assert all(answer.loaded for answer in run_jobs(version, jobs))
        return made

    def of(case: Case) -> Worked:
        number = [other for other in CASES if other.version == case.version].index(case)
        return some(case.version, number - number % JOBS_AT_ONCE)[case]

    return of


def _repaired(base: SoundStore, damage: str, root: Path) -> Worked:
    shutil.copytree(base.root, root)
    DAMAGES[damage](root)
    before = snapshot(root)
    store = open_store(root, version=base.version, broker_conf=base.conf)
    report = check_store(store, CheckOptions(level="full", jobs=1))
    try:
        plan = held_plan(make_plan(store, report), store, report)
        done = apply_plan(plan, assume=assumed_names(plan.actions)) if plan.actions else None
    except RocketfsckError:
        done = None
    return Worked(root, before, done is not None and done.published)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_undo_gives_every_byte_after_a_broker_has_worked(
    case: Case, worked: Callable[[Case], Worked]
) -> None:
    store = worked(case)
    if not store.repaired:
        assert snapshot(store.root) == store.before
        pytest.skip("nothing is repaired")
    assert snapshot(store.root) != store.before
    assert undo(store.root, force=True).not_restored == ()
    assert snapshot(store.root) == store.before
    shutil.rmtree(store.root.parent)
