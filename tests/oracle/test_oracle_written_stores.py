"""Stores that we write, in the hands of the real code: it loads them after a clean stop and after a kill,
serves every message by queue offset and by key, appends to them and stops or is killed; then a check finds
nothing. And back: we append to what it left, and it goes on from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rocketfsck.writer import EndState

from tests.conftest import NIGHTLY
from tests.oracle.broker import VERSIONS, Answer, Job, Put, State, run, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import (
    AFTER_KILL,
    Place,
    decoded_otherwise,
    keys_of,
    keys_unanswered,
    problems,
    puts_not_served,
    rows_of,
    rows_served,
    unserved,
)
from tests.oracle.scenarios import (
    DELAY_LEVELS,
    SCENARIOS,
    Scenario,
    Written,
    append,
    appended,
    settings_of,
    write,
)

pytestmark = pytest.mark.oracle

YOUNG = {"CP005", "CP017"}
"""What else is said of a killed store whose checkpoint was not flushed yet."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario, how we ended the store and how the real code is ended."""

    scenario: Scenario
    version: str
    written: EndState
    kill: bool

    def __str__(self) -> str:
        return f"{self.scenario}-{self.version}-{self.written.value}-{'kill' if self.kill else 'stop'}"


ENDS = ((EndState.CLEAN, False), (EndState.CLEAN, True), (EndState.KILLED, False))
CASES = [
    Case(scenario, version, written, kill)
    for place, version in enumerate(VERSIONS)
    for number, scenario in enumerate(SCENARIOS)
    for turn, (written, kill) in enumerate(end for end in ENDS if end[0] in scenario.ends)
    if version in scenario.versions
    and (NIGHTLY or number == 0 or turn == (place + number) % (6 if EndState.KILLED in scenario.ends else 4))
]
"""By day a version meets the first scenario with all ends, half of the others with one each, in turn."""


@dataclass(frozen=True, slots=True)
class Outcome:
    written: Written
    problems_before: dict[str, list[str]]
    job: Job
    answer: Answer

    @property
    def states(self) -> tuple[State, State]:
        """As loaded, and after the messages were appended."""
        assert self.answer.loaded, self.answer.refusal
        assert self.answer.before is not None
        assert self.answer.after is not None
        return self.answer.before, self.answer.after

    @property
    def lost(self) -> set[str]:
        """The findings of index entries that the store's broker lost and that no recovery made again."""
        if self.written.options.end_state is EndState.KILLED:
            return set()  # with messageIndexSafe all that was lost before is indexed again
        return set(self.problems_before) & self.written.scenario.loses

    @property
    def expired(self) -> set[Place]:
        return {
            ((put.record.topic.decode(), put.record.queue_id), put.queue_offset)
            for put in self.written.records
            if put.physical_offset < self.written.store.min_offset
        }


Outcomes = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def outcome(needs_broker: Needs, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Writes, checks and runs all stores of a version at once; gives what came of one."""
    place = tmp_path_factory.mktemp("written")

    @cache
    def of_version(version: str) -> dict[Case, Outcome]:
        needs_broker(version)
        cases = [case for case in CASES if case.version == version]
        stores = [write(case.scenario, version, case.written, place / str(case)) for case in cases]
        before = [problems(store.store.path, version, DELAY_LEVELS) for store in stores]
        jobs = [_job(case, store) for case, store in zip(cases, stores, strict=True)]
        answers = run_jobs(version, jobs)
        return dict(zip(cases, map(Outcome, stores, before, jobs, answers), strict=True))

    return lambda case: of_version(case.version)[case]


def _job(case: Case, written: Written) -> Job:
    settings = settings_of(case.scenario, written.options)
    if case.written is EndState.KILLED:
        # otherwise the real code does not index again all of what it deletes
        settings["messageIndexSafe"] = True
    return Job(
        written.store.path,
        written.options.geometry,
        keys=tuple(_keys(written)),
        append=appended(written.options),
        kill=case.kill,
        batch_topics=tuple(written.options.batch_topics),
        settings=settings,
    )


def _keys(written: Written) -> dict[tuple[str, str], set[int]]:
    records = (put.record for put in written.records if put.physical_offset >= written.store.min_offset)
    return keys_of(records, written.options.dialect)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_we_write_is_clean(case: Case, outcome: Outcomes) -> None:
    found = outcome(case).problems_before
    allowed = AFTER_KILL | YOUNG if case.written is EndState.KILLED else set()
    assert set(found) <= allowed | case.scenario.loses, found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_is_served_by_queue_offset(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    before, _ = done.states
    written = done.written
    assert max(before.min_offset, 0) == written.store.min_offset  # -1: there is no file
    assert before.max_offset == written.store.max_offset
    assert rows_served(before) == rows_of(written.records, written.store.min_offset)
    assert unserved(before, done.expired) == []
    records = [put.record for put in written.records]
    assert decoded_otherwise(before, records, written.options.dialect) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_is_served_by_key(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    before, _ = done.states
    if not done.written.options.message_index:
        assert not any(answer.indexed for answer in before.keys.values())
        return
    wrong = keys_unanswered(before, _keys(done.written))
    assert bool(wrong) == bool(done.lost), wrong[:10]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_real_code_appends(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    before, after = done.states
    assert after.max_offset > before.max_offset
    assert puts_not_served(after, done.job.append, done.answer.put) == []
    assert unserved(after, done.expired) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_the_real_code_leaves_is_clean(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    found = problems(done.written.store.path, case.version, DELAY_LEVELS)
    expected = set(done.lost)
    if case.kill:
        # a killed store without an index file has none that is doomed
        expected |= AFTER_KILL if done.written.options.message_index else {"CP001"}
        expected |= set(found) & YOUNG if case.scenario.count < 2 else set()
        if done.written.options.dialect.logics_timestamp_at_flush:  # which comes after a minute
            expected |= set(found) & {"CP005"}
    assert set(found) == expected, found


@pytest.mark.parametrize("version", VERSIONS)
def test_we_append_to_what_the_real_code_left(version: str, outcome: Outcomes, tmp_path: Path) -> None:
    scenario = SCENARIOS[0]
    first = outcome(Case(scenario, version, EndState.CLEAN, False))
    store = Path(shutil.copytree(first.written.store.path, tmp_path / "store"))
    more = append(scenario, first.written.options, store, seed=2)
    assert problems(store, version, DELAY_LEVELS) == {}
    ours = [*first.written.records, *more.records]
    keys = keys_of((put.record for put in ours), more.options.dialect)
    answer = run(
        version,
        store,
        first.written.options.geometry,
        keys=keys,
        append=first.job.append,
        batch_topics=first.job.batch_topics,
        settings=first.job.settings,
    )
    assert answer.before is not None, answer.refusal
    assert answer.before.max_offset == more.store.max_offset
    served = rows_served(answer.before)
    for queue, rows in rows_of(ours, 0).items():
        assert set(rows) <= set(served[queue]), queue
    assert keys_unanswered(answer.before, keys) == []
    assert problems(store, version, DELAY_LEVELS) == {}


@pytest.mark.parametrize("version", ["4.4.0", "4.9.8"])
def test_what_comes_due_is_delivered(version: str, needs_broker: Needs, tmp_path: Path) -> None:
    """Before 5.x the store delivers delayed messages itself: from ours, where and as it must."""
    needs_broker(version)
    due = Scenario("due", mix="plain,body=100,topics=2,queues=1,delay=50,rate=10", count=60)
    written = write(due, version, EndState.CLEAN, tmp_path / "store", delay_levels="1s 2s")
    delayed = [put for put in written.records if put.record.topic == b"SCHEDULE_TOPIC_XXXX"]
    assert delayed
    job = Job(
        written.store.path,
        written.options.geometry,
        settings={"messageDelayLevel": "1s 2s"},
        linger_ms=3000,
    )
    (answer,) = run_jobs(version, [job])
    before, after = answer.before, answer.after
    assert before is not None, answer.refusal
    assert after is not None
    bodies = [
        (m.fields or {}).get("bodySha256")
        for (topic, _), queue in after.queues.items()
        if topic in ("Topic0", "Topic1")
        for m in queue.messages
    ]
    assert len(bodies) == len(set(bodies)) == len(written.records)
    assert problems(written.store.path, version, "1s 2s") == {}


def test_a_wrong_byte_does_not_pass(needs_broker: Needs, tmp_path: Path) -> None:
    """The judge can tell: a body that was altered is served otherwise, a lost unit not at all."""
    version = "4.9.8"
    needs_broker(version)
    plain = Scenario("altered", mix="plain,body=64,topics=1,queues=1,rate=10", count=30)
    written = write(plain, version, EndState.CLEAN, tmp_path / "store")
    log = next((written.store.path / "commitlog").iterdir())
    victim = written.records[3].record
    data = bytearray(log.read_bytes())
    at = data.index(victim.body)
    data[at] ^= 1
    log.write_bytes(data)
    answer = run(
        version,
        written.store.path,
        written.options.geometry,
        append=(Put("Topic0", b"x", 0),),
        settings=settings_of(plain, written.options),
    )
    assert answer.before is not None, answer.refusal
    assert answer.before.max_offset == victim.physical_offset  # the broker cuts the log there
    assert rows_served(answer.before) != rows_of(written.records, 0)
    assert problems(written.store.path, version, DELAY_LEVELS) != {}
