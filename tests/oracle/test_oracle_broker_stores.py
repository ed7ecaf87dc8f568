"""The harness on stores that real brokers wrote: it must give what their manifests say, and what it leaves
behind after more messages must be clean in our eyes.

The real code that wrote a store was built from a tag; the code here is the release. They must agree.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document
from tests.oracle.broker import Answer, Item, Job, Put, State, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import AFTER_KILL, problems, puts_not_served, unserved
from tests.oracle.manifests import (
    batch_topics_of,
    bounds_of,
    geometry_of,
    live_of,
    places_of,
    settings_of,
    whole_answers,
)

pytestmark = pytest.mark.oracle

RUN_BY = {
    "4.4.0": "4.4.0",
    "4.9.8": "4.9.8",
    "5.0.0": "5.1.4",
    "5.1.3": "5.1.4",
    "5.3.3": "5.3.3",
    "HEAD": "5.3.3",
}
"""Which release runs over a store, by the version in its name. A later one is an upgrade."""

UPGRADES = (
    ("4.4.0-multiseg", "4.9.8"),
    ("4.9.8-multiseg", "5.1.4"),
    ("4.9.8-basic", "5.3.3"),
    ("5.1.3-basic", "5.3.3"),
)
GHOSTS = "4.9.8-ghosttail"
"""A store cut by its broker, where units and entries of what is gone come back at every start."""

DELIVERS = {"4.9.8-delay"}
"""Delayed messages of these come due while the store runs: a kill could hit their delivery."""
DELIVERY_MS = 3000
"""A broker begins to deliver a second after its start, and stops in the middle if it is stopped before."""

APPENDED = (
    *(
        Put(
            f"Appended{number % 2}", b"appended" * number, number % 3, {"KEYS": f"a{number} all", "TAGS": "t"}
        )
        for number in range(24)
    ),
    Put("Batched", items=tuple(Item(b"item", {"KEYS": f"i{number}"}, number) for number in range(5))),
    Put("Appended0", b"", 0, {"UNIQ_KEY": "0A0102030405060708090A0B0C0D0E0F", "KEYS": "订单 😀"}),
)
APPENDED_KEYS = {
    ("Appended1", "a3"): 1,
    ("Appended0", "all"): 12,
    ("Batched", "i4"): 1,
    ("Appended0", "订单"): 1,
}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    version: str
    kill: bool = False

    def __str__(self) -> str:
        return f"{self.name}-by-{self.version}-{'kill' if self.kill else 'stop'}"


CASES = [
    Case(name, RUN_BY[name.partition("-")[0]], kill)
    for name in STORE_NAMES
    for kill in (False, True)
    if not (kill and name in DELIVERS)
] + [Case(name, version) for name, version in UPGRADES]  # fmt: skip

Outcome = tuple[Answer, Path]
Outcomes = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def outcome(
    needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path_factory: pytest.TempPathFactory
) -> Outcomes:
    """Runs all cases of a version at once; gives one's answer and what was left of the store."""
    place = tmp_path_factory.mktemp("oracle")

    @cache
    def of_version(version: str) -> dict[Case, Outcome]:
        needs_broker(version)
        cases = [case for case in CASES if case.version == version]
        jobs = []
        for case in cases:
            document = manifest(case.name)
            live = live_of(document)
            keys = set(whole_answers(live, "indexQueryOffset")) if live is not None else set()
            jobs.append(
                Job(
                    Path(shutil.copytree(store_dir(case.name), place / str(case))),
                    geometry_of(document),
                    keys=(*sorted(keys), *APPENDED_KEYS),
                    append=APPENDED,
                    kill=case.kill,
                    batch_topics=batch_topics_of(document),
                    settings=settings_of(document),
                    linger_ms=DELIVERY_MS if case.name in DELIVERS else 0,
                )
            )
        answers = run_jobs(version, jobs)
        return {case: (answer, job.store) for case, answer, job in zip(cases, answers, jobs, strict=True)}

    return lambda case: of_version(case.version)[case]


def _loaded(answer: Answer) -> tuple[State, State]:
    assert answer.loaded, answer.refusal
    assert answer.before is not None
    assert answer.after is not None
    return answer.before, answer.after


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_real_code_gives_what_the_manifest_says(
    case: Case, outcome: Outcomes, manifest: Document
) -> None:
    before, _ = _loaded(outcome(case)[0])
    document = manifest(case.name)
    live = live_of(document)
    if live is None or case.name == GHOSTS:  # the restart cases say what is there
        assert before.max_offset > 0
        return
    assert (before.min_offset, before.max_offset) == (live["commitlogMinOffset"], live["commitlogMaxOffset"])
    assert _bounds(before) == bounds_of(live)
    assert _places(before) == places_of(live)
    assert unserved(before) == [] or "propedge" in case.name
    served = {m.physical_offset: m.fields for queue in before.queues.values() for m in queue.messages}
    for decoded in live["decoded"]:
        fields = served.get(decoded["o"])
        if fields is not None:
            assert _common(fields) == _common(decoded), decoded["o"]
    if document["abortPresent"]:
        return  # the newest index file was deleted
    for name, of in (("indexQueryOffset", "indexed"), ("queryMessage", "served")):
        expected = whole_answers(live, name)
        assert expected
        found = {key: getattr(before.keys[key], of) for key in expected if key in before.keys}
        assert found == {key: expected[key] for key in found}


def _bounds(state: State) -> dict[tuple[str, int], tuple[int, int]]:
    return {name: (q.min_offset, q.max_offset) for name, q in state.queues.items() if q.messages}


def _places(state: State) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
    return {
        name: [(m.queue_offset, m.physical_offset, m.size) for m in queue.messages]
        for name, queue in state.queues.items()
        if queue.messages
    }


def _common(fields: object) -> dict[str, object]:
    assert isinstance(fields, dict)
    names = (
        "topic",
        "queueId",
        "sysFlag",
        "flag",
        "bodyCRC",
        "bornTimestamp",
        "storeTimestamp",
        "bodySha256",
    )
    return {name: fields[name] for name in (*names, "reconsumeTimes", "properties")}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_appended_is_served(case: Case, outcome: Outcomes) -> None:
    answer, _ = outcome(case)
    before, after = _loaded(answer)
    assert after.max_offset > before.max_offset
    assert puts_not_served(after, APPENDED, answer.put) == []
    if case.name == GHOSTS:
        return  # its index is ahead of its log: new messages are not indexed
    found = {key: len(set(after.keys[key].served)) for key in APPENDED_KEYS}
    assert found == APPENDED_KEYS


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_the_real_code_leaves_is_clean(
    case: Case, outcome: Outcomes, store_dir: Directory, manifest: Document
) -> None:
    _, store = outcome(case)
    levels = manifest(case.name)["geometry"]["messageDelayLevel"]
    before = problems(store_dir(case.name), case.name.partition("-")[0].replace("HEAD", "5.3.4"), levels)
    found = problems(store, case.version, levels)
    expected = set(before) - AFTER_KILL | (AFTER_KILL if case.kill else set())
    if case.name == GHOSTS:
        expected &= set(found) | AFTER_KILL  # some of its ghosts are written over
    assert set(found) == expected, found


RESTARTS = [name for name in RESTART_NAMES if name.partition("-")[0] in ("4.4.0", "4.9.8", "5.3.3")]


@pytest.mark.parametrize("version", sorted({name.partition("-")[0] for name in RESTARTS}))
def test_damaged_stores_restart_as_they_did(
    version: str, needs_broker: Needs, restart_dir: Directory, oracle: Document, tmp_path: Path
) -> None:
    needs_broker(version)
    names = [name for name in RESTARTS if name.startswith(version)]
    jobs = [
        Job(
            Path(shutil.copytree(restart_dir(name), tmp_path / name)),
            geometry_of(oracle(name)),
            settings=settings_of(oracle(name)),
        )
        for name in names
    ]
    for name, answer in zip(names, run_jobs(version, jobs), strict=True):
        said = oracle(name)
        assert answer.loaded == said["loaded"], name
        state, then = answer.final, said["afterStart"]
        assert (state.min_offset, state.max_offset) == (
            then["commitlogMinOffset"],
            then["commitlogMaxOffset"],
        ), name
        assert {queue: b for queue, b in _bounds(state).items() if b[0] < b[1]} == {
            queue: bounds for queue, bounds in bounds_of(then).items() if bounds[0] < bounds[1]
        }, name
