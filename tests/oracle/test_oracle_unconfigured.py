"""Every named damage, repaired by somebody who gives no broker.conf, in the hands of the real code.

The sizes are nobody's defaults. What is published is loaded, serves every survivor and is appended to; what
is not published, or not planned, has a reason, and the store is as it was. One fault in `PARTS`, each with
another version, is tried every time; all of them with all versions in the long suite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from rocketfsck.writer import EndState
from rocketfsck.writer.damage import DAMAGES

from tests.oracle.broker import VERSIONS, Answer
from tests.oracle.conftest import Needs
from tests.oracle.scenarios import write
from tests.oracle.unconfigured import SCENARIOS, Case, Tried, ask, damage, repair, survivors, wrong

PARTS = 24
ALL = [Case(fault, version) for version in VERSIONS for fault in sorted(DAMAGES)]
SAMPLE = [
    Case(fault, VERSIONS[number // PARTS % len(VERSIONS)])
    for number, fault in enumerate(sorted(DAMAGES))
    if number % PARTS == 0
]
"""Half a dozen."""

GEOMETRY_LOST = [Case("missing-all-queues", version) for version in VERSIONS]
"""Nothing is left that tells the size of a queue file."""

CASES = [*SAMPLE, *(case for case in GEOMETRY_LOST if case not in SAMPLE)]
MORE = [case for case in ALL if case not in CASES]

Judged = tuple[Tried | None, list[str]]


@pytest.fixture(scope="module")
def judged(
    needs_broker: Needs, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Case, tuple[Case, ...]], Judged]:
    """Damages, repairs and runs all stores of a version at once; what came of one, and what is wrong."""
    place = tmp_path_factory.mktemp("unconfigured")

    @cache
    def of_version(version: str, cases: tuple[Case, ...]) -> dict[Case, Judged]:
        needs_broker(version)
        folder = place / f"{version}-{len(cases)}"
        folder.mkdir()
        written = [write(scenario, version, EndState.CLEAN, folder / scenario.name) for scenario in SCENARIOS]
        found: dict[Case, Judged] = {}
        tries: list[Tried] = []
        for case in cases:
            if case.version != version:
                continue
            store = folder / case.fault
            sound = damage(case, written, store)
            if sound is None:
                found[case] = None, []
            else:
                tries.append(repair(case, sound, store))
        kept = {tried.case: survivors(tried.written, tried.store) for tried in tries}
        answers: dict[Case, Answer] = ask(tries)
        for tried in tries:
            found[tried.case] = tried, wrong(tried, kept[tried.case], answers.get(tried.case))
        return found

    return lambda case, cases: of_version(case.version, cases)[case]


def _holds(judged: Judged) -> None:
    tried, found = judged
    if tried is None:
        pytest.skip("the store has no place for this fault")
    assert found == [], (tried.outcome, tried.reason)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_repair_without_a_conf_loads_or_is_refused(
    case: Case, judged: Callable[[Case, tuple[Case, ...]], Judged]
) -> None:
    _holds(judged(case, tuple(CASES)))


@pytest.mark.oracle
@pytest.mark.parametrize("case", GEOMETRY_LOST, ids=str)
def test_what_cannot_be_known_is_not_written(
    case: Case, judged: Callable[[Case, tuple[Case, ...]], Judged]
) -> None:
    tried, _ = judged(case, tuple(CASES))
    assert tried is not None
    assert tried.outcome == "refused"
    assert "consumequeue_file_size" in tried.reason


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.parametrize("case", MORE, ids=str)
def test_every_damage_without_a_conf(case: Case, judged: Callable[[Case, tuple[Case, ...]], Judged]) -> None:
    _holds(judged(case, tuple(MORE)))
