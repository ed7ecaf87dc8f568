"""Stores that were damaged and repaired, in the hands of the real code: it loads them, serves every message
that survived by queue offset and by key, and appends to them; then a check finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.magic import FENCE_TOPIC
from rocketfsck.formats.record import encode_record
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Loss
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.testing.conformance import broker_conf_of
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer import EndState, PutRecord
from rocketfsck.writer.damage import damage_store

from tests.conftest import NIGHTLY
from tests.oracle.broker import VERSIONS, Answer, Job, State, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import (
    keys_of,
    keys_unanswered,
    problems,
    puts_not_served,
    rows_of,
    rows_served,
)
from tests.oracle.scenarios import DELAY_LEVELS, Scenario, Written, appended, settings_of, write

pytestmark = pytest.mark.oracle

SCENARIO = Scenario(
    "plain", mix="plain,body=log:1:2000,keys=0:3,words=200,topics=3,queues=2,rate=10", count=740
)
SEED = 11

FAULTS = (
    "torn-tail",
    "boundary-lost",
    "blank-early",
    "stale-tail",
    "garbage-tail",
    "body-flip",
    "record-malformed",
    "short-segment",
    "stray-file",
    "segment-renamed",
    "segment-copied",
    "segment-appended",
    "blank-missing",
    "queue-behind",
    "dangling-tail",
    "unit-order",
    "queue-hole",
    "queue-shift",
    "units-stale",
    "missing-queue",
    "missing-all-queues",
    "chain-cycle",
    "cross-link",
    "slot-emptied",
    "index-count-low",
    "index-truncated",
    "index-lost",
    "checkpoint-zeroed",
    "checkpoint-future",
    "config-cut",
)


@dataclass(frozen=True, slots=True)
class Case:
    fault: str
    version: str

    def __str__(self) -> str:
        return f"{self.fault}-{self.version}"


EVERY = 1 if NIGHTLY else 12
"""A version has every so many faults: by day most faults have one version, nightly all of them."""

CASES = [
    Case(fault, version)
    for number, version in enumerate(VERSIONS)
    for fault in FAULTS[number % EVERY :: EVERY]
]

GEOMETRY_LOST = "missing-all-queues"
"""Nothing is left that tells the size of a queue file: every version tries this one."""


def without_settings(version: str) -> tuple[str, ...]:
    """The faults that a version tries without settings: each fault has one version, nightly all of them."""
    if NIGHTLY:
        return FAULTS
    return tuple(dict.fromkeys((*FAULTS[VERSIONS.index(version) :: len(VERSIONS)], GEOMETRY_LOST)))


@dataclass(frozen=True, slots=True)
class Outcome:
    written: Written
    losses: tuple[Loss, ...]
    report: ApplyReport
    survivors: tuple[PutRecord, ...]
    found: dict[str, list[str]]
    job: Job
    answer: Answer

    @property
    def before(self) -> State:
        assert self.answer.loaded, self.answer.refusal
        assert self.answer.before is not None
        return self.answer.before


Outcomes = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def outcome(needs_broker: Needs, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Writes, damages, repairs and runs all stores of a version at once; gives what came of one."""
    place = tmp_path_factory.mktemp("repaired")

    @cache
    def of_version(version: str) -> dict[Case, Outcome]:
        needs_broker(version)
        folder = place / version
        folder.mkdir(exist_ok=True)
        cases = [case for case in CASES if case.version == version]
        written = write(SCENARIO, version, EndState.CLEAN, folder / "sound")
        stores = [folder / str(case) for case in cases]
        repairs = [_repaired(written, case, store) for case, store in zip(cases, stores, strict=True)]
        survivors = [_survivors(written, store) for store in stores]
        found = [problems(store, version, DELAY_LEVELS) for store in stores]
        jobs = [_job(written, store, kept) for store, kept in zip(stores, survivors, strict=True)]
        answers = run_jobs(version, jobs)
        return {
            case: Outcome(written, losses, report, kept, rest, job, answer)
            for case, (losses, report), kept, rest, job, answer in zip(
                cases, repairs, survivors, found, jobs, answers, strict=True
            )
        }

    return lambda case: of_version(case.version)[case]


def _repaired(written: Written, case: Case, store: Path) -> tuple[tuple[Loss, ...], ApplyReport]:
    conf = store.with_name("broker.conf")
    conf.write_text(broker_conf_of(written.options.geometry) + f"messageDelayLevel={DELAY_LEVELS}\n")
    damage_store(written.store.path, store, [case.fault], SEED, version=case.version, broker_conf=conf)
    opened = open_store(store, version=case.version, broker_conf=conf)
    report = check_store(opened, CheckOptions(level="full", jobs=1))
    plan = make_plan(opened, report)
    losses = tuple(loss for action in plan.actions for loss in action.losses)
    gone = {item.name for item in all_assumptions(plan.actions)} & {"missing_files"}  # the damage took them
    return losses, apply_plan(plan, keep=False, assume=gone)


def _survivors(written: Written, store: Path) -> tuple[PutRecord, ...]:
    """The records that stand in the repaired log where they were put, with all their bytes."""
    files = {int(file.name): file.read_bytes() for file in (store / "commitlog").iterdir()}
    size = written.options.geometry.commitlog_file_size
    kept = []
    for put in written.records:
        start = put.physical_offset // size * size
        pos = put.physical_offset - start
        data = encode_record(put.record)
        if files.get(start, b"")[pos : pos + len(data)] == data:
            kept.append(put)
    return tuple(kept)


def _job(written: Written, store: Path, kept: tuple[PutRecord, ...]) -> Job:
    return Job(
        store,
        written.options.geometry,
        keys=tuple(keys_of((put.record for put in kept), written.options.dialect)),
        append=appended(written.options),
        settings=settings_of(SCENARIO, written.options),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_repair_did_what_it_planned(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    assert done.report.published, done.report.problem
    assert done.found == {}
    planned = sum(loss.count for loss in done.losses if loss.what == "record")
    assert len(done.written.records) - len(done.survivors) <= planned


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_survivor_is_served_by_queue_offset(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    served, expected = rows_served(done.before), rows_of(done.survivors, 0)
    for queue, rows in expected.items():
        assert set(rows) <= set(served.get(queue, [])), queue
    fences = {
        (name, message.queue_offset)
        for name, queue in done.before.queues.items()
        for message in queue.messages
        if (message.fields or {}).get("topic") == FENCE_TOPIC.decode()
    }
    more = {(queue, row[0]) for queue, rows in served.items() for row in {*rows} - {*expected.get(queue, [])}}
    assert more <= fences


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_survivor_is_served_by_key(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    records = (put.record for put in done.survivors)
    assert keys_unanswered(done.before, keys_of(records, done.written.options.dialect)) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_real_code_appends_and_leaves_it_clean(case: Case, outcome: Outcomes) -> None:
    done = outcome(case)
    assert done.answer.after is not None
    assert puts_not_served(done.answer.after, done.job.append, done.answer.put) == []
    assert problems(done.job.store, case.version, DELAY_LEVELS) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_settings_a_repair_is_refused_or_loads(
    version: str, needs_broker: Needs, tmp_path: Path
) -> None:
    """No file sizes are given, and none are the default: nothing is written by what the bytes do not tell.

    Each fault meets one version here, and all of them nightly.
    """
    needs_broker(version)
    written = write(SCENARIO, version, EndState.CLEAN, tmp_path / "sound")
    jobs: list[Job] = []
    refused: set[str] = set()
    for fault in without_settings(version):
        store = tmp_path / fault
        conf = tmp_path / "broker.conf"
        conf.write_text(broker_conf_of(written.options.geometry) + f"messageDelayLevel={DELAY_LEVELS}\n")
        damage_store(written.store.path, store, [fault], SEED, version=version, broker_conf=conf)
        opened = open_store(store)
        plan = make_plan(opened, check_store(opened, CheckOptions(level="full", jobs=1)))
        assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
        try:
            report = apply_plan(plan, keep=False)
        except UsageError as error:
            assert assumed and all(name in str(error) for name in assumed)
            refused.add(fault)
            continue
        assert not assumed and (report.published or not plan.actions), (fault, report.problem)
        jobs.append(_job(written, store, ()))
    answers = run_jobs(version, jobs)
    refusals = {
        job.store.name: answer.refusal for job, answer in zip(jobs, answers, strict=True) if not answer.loaded
    }
    assert refusals == {}
    assert GEOMETRY_LOST in refused
