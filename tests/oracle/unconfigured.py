"""Repairs of a store whose sizes are not the defaults, by somebody who gives no broker.conf and no version.

Whatever comes of it is judged by the real code, which is told the true sizes: a store that was published is
loaded, serves every survivor and is appended to; what is not published, or not planned, has a reason.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rocketfsck.errors import RocketfsckError
from rocketfsck.formats.record import encode_record
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.testing.conformance import broker_conf_of
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer import PutRecord
from rocketfsck.writer.damage import DAMAGES, DamageError, damage_store

from tests.oracle.broker import Answer, Job, run_jobs
from tests.oracle.judging import puts_not_served, rows_of, rows_served
from tests.oracle.scenarios import DELAY_LEVELS, Scenario, Written, appended, settings_of

GEOMETRY = Geometry(24_000, 700, 460, 4096, 41, 333)
"""Sizes that are nobody's default, and that no block or page divides."""

PLAIN = Scenario(
    "plain",
    mix="plain,body=log:1:1500,keys=0:3,words=200,topics=3,queues=2,rate=10",
    count=300,
    geometry=GEOMETRY,
)
EVERYTHING = Scenario("everything", count=250, geometry=GEOMETRY)
SCENARIOS = (PLAIN, EVERYTHING)
"""A damage is done to a store of the first one that has a place for it."""

BATCH = 24
"""Stores in one process of the real code."""

Outcome = Literal["published", "refused", "not planned"]


@dataclass(frozen=True, slots=True)
class Case:
    fault: str
    version: str

    def __str__(self) -> str:
        return f"{self.fault}-{self.version}"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one repair. `reason` is why nothing was published; `untouched`: then no byte changed."""

    case: Case
    written: Written
    store: Path
    outcome: Outcome
    reason: str
    untouched: bool
    report: ApplyReport | None = None


def damage(case: Case, written: Sequence[Written], store: Path) -> Written | None:
    """Damage a copy of the first store that has a place for it; None where none has."""
    conf = store.with_name(f"{store.name}.conf")
    conf.write_text(broker_conf_of(GEOMETRY) + f"messageDelayLevel={DELAY_LEVELS}\n")
    for number, sound in enumerate(written):
        try:
            damage_store(
                sound.store.path,
                store,
                [case.fault],
                number + 1,
                version=case.version,
                broker_conf=conf,
                write_truth=False,
            )
        except DamageError:
            continue
        return sound
    return None


def repair(case: Case, written: Written, store: Path) -> Tried:
    """Check, plan and apply, and be told nothing of the broker."""
    before = _hashes(store)
    try:
        opened = open_store(store)
        plan = make_plan(opened, check_store(opened, CheckOptions(level="full", jobs=1)))
        if not plan.actions:
            reasons = {item.reason for item in plan.unanswered}
            reason = "; ".join(sorted(reasons)) or "nothing is wrong in what was checked"
            return Tried(case, written, store, "not planned", reason, _hashes(store) == before)
        report = apply_plan(plan, keep=False)
    except RocketfsckError as error:
        return Tried(case, written, store, "refused", str(error), _hashes(store) == before)
    if report.published:
        return Tried(case, written, store, "published", "", False, report)
    return Tried(case, written, store, "refused", report.problem, _hashes(store) == before, report)


def survivors(written: Written, store: Path) -> tuple[PutRecord, ...]:
    """The records that are in the log where they were put, with all their bytes."""
    files = {
        int(file.name): file.read_bytes()
        for file in (store / "commitlog").iterdir()
        if file.name.isdigit() and file.is_file()
    }
    size = GEOMETRY.commitlog_file_size
    kept = []
    for put in written.records:
        start = put.physical_offset // size * size
        data = encode_record(put.record)
        if files.get(start, b"")[put.physical_offset - start :].startswith(data):
            kept.append(put)
    return tuple(kept)


def job_of(tried: Tried) -> Job:
    written = tried.written
    return Job(
        tried.store,
        GEOMETRY,
        append=appended(written.options),
        settings=settings_of(written.scenario, written.options),
        batch_topics=tuple(written.options.batch_topics),
    )


def ask(tries: Sequence[Tried]) -> dict[Case, Answer]:
    """The published stores in the hands of the real code of their version, which is told the true sizes."""
    answers: dict[Case, Answer] = {}
    published = [tried for tried in tries if tried.outcome == "published"]
    for at in range(0, len(published), BATCH):
        part = published[at : at + BATCH]
        found = run_jobs(part[0].case.version, [job_of(tried) for tried in part])
        answers |= {tried.case: answer for tried, answer in zip(part, found, strict=True)}
    return answers


def wrong(tried: Tried, kept: Sequence[PutRecord], answer: Answer | None) -> list[str]:
    """What the result does not keep of what it promises; `kept` are the survivors."""
    if tried.outcome != "published":
        said = [] if tried.reason else ["nothing says why"]
        return said if tried.untouched else [*said, "the store was changed"]
    assert answer is not None and tried.report is not None
    if not answer.loaded:
        foretold = [item for item in tried.report.starts if tried.case.version in item.after.alike]
        if any(item.after.covered and not item.after.loads for item in foretold) and tried.report.left:
            return []  # it was said that such a broker refuses it still, and what is left
        return [f"not loaded: {answer.refusal}"]
    if answer.before is None or answer.after is None:
        return ["no answer"]
    found = puts_not_served(answer.after, job_of(tried).append, answer.put)
    served, expected = rows_served(answer.before), rows_of(kept, 0)
    for queue, rows in expected.items():
        missing = set(rows) - set(served.get(queue, []))
        if missing and not tried.report.left:
            found.append(f"{queue}: {len(missing)} survivors are not served")
    places = {row[1]: (queue, row[0]) for queue, rows in expected.items() for row in rows}
    moved = {
        (queue, row[0])
        for queue, rows in served.items()
        for row in rows
        if places.get(row[1], (queue, row[0])) != (queue, row[0])
    }
    if moved and not tried.report.left and tried.written.scenario is PLAIN:
        found.append(f"survivors are served at other places: {sorted(moved)[:5]}")
    return found


def faults_with(part: int, parts: int) -> list[str]:
    """Every `parts`th named damage, from number `part` on."""
    return sorted(DAMAGES)[part::parts]


def clear(store: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)


def _hashes(store: Path) -> dict[str, str]:
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
