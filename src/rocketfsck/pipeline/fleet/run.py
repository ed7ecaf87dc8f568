"""The check of many stores: a row each, whatever becomes of the others.

A store is opened, checked and judged where the work is done: on a worker, or in this process.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rocketfsck.common.documents import printable
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import EXIT_INTERNAL, EXIT_OPERATIONAL, RocketfsckError, StoreError, UsageError
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.pipeline.fleet import model
from rocketfsck.pipeline.fleet.stages import FILE_WEIGHT, PassingEngine, run_jobs, work_on
from rocketfsck.pipeline.sources import broker_name, demand_match, find_places
from rocketfsck.progress import phase
from rocketfsck.repair.state import check_status
from rocketfsck.repair.verdict import Verdict, judge_store, ranked
from rocketfsck.store import Store, open_store
from rocketfsck.store.areas import absolute_path
from rocketfsck.store.meant import find_meant_stores
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.run import check_store
from rocketfsck.verify.since.proving import Begun, StateChangedError, begin
from rocketfsck.verify.stopping import Policy, report_by
from rocketfsck.verify.tasks.execute import PlannedTask, known_size, unit_files

# Opens a store of a fleet where the work on it is done.


def open_meant(place: Path, facts: Mapping[str, Any]) -> Store:
    """The store at a path, or the one below it, as in broker-a/store; `facts` are arguments of `open_store`.

    Raises StoreError and UsageError as `open_store` does, and StoreError for what is not one store.
    """
    demand_match(place)
    meant = find_meant_stores(place)
    above = [store for store in meant if place.is_relative_to(store)]
    if above:
        raise StoreError(f"is a part of the store {above[0]}", path=str(place))
    if len(meant) > 1:
        raise StoreError("is not a store, but there are stores in it: name each", path=str(place))
    if place.is_file():
        raise StoreError("is a file, not a store", path=str(place))
    return open_store(*meant or (place,), **facts)


ERROR_LENGTH = 1000
"""Characters of an error that the row keeps."""
UNREAD_LIMIT = 3
"""Unreadable files that the row names."""


Opened = tuple[Store, Begun | None]
"""A store, and what a check since an earlier one begins with."""


@dataclass(frozen=True, slots=True)
class CheckJob:
    """The check of one store: its path, and what is asked about it. What goes wrong is in the row."""

    place: Path
    asked: model.FleetRequest

    def open(self) -> Opened:
        """The store. Raises StoreError and UsageError."""
        with work_on(self.place, "check", "checked"):
            store, options = open_meant(self.place, self.asked.facts), self.asked.options
            return store, None if options.since is None else begin(store, options)[2]

    def work(self, opened: Opened, engine: PassingEngine) -> model.CheckedStore:
        """The row of the store, and its findings. Raises StoreError."""
        with work_on(self.place, "check", "checked"):
            asked, (store, begun) = self.asked, opened
            if asked.options.since is not None and not is_remote(asked.options.since):
                asked.options.since.parent.mkdir(parents=True, exist_ok=True)
            try:
                full = check_store(store, asked.options, engine=engine, begun=begun)
            except StateChangedError:  # what stages gave belongs to the other one
                full = check_store(store, asked.options, engine=LocalEngine())
            verdict = judge_store(store, full, version=asked.version)
            report = report_by(ranked(full, verdict), asked.policy)
            listed = list(islice(report.finding_rows(), asked.finding_limit))
            row = _row(self, store, report, verdict, sum(finding["count"] for finding in listed))
            head = {"run_id": row.run_id, "broker": row.broker, "root": row.root}
            return model.CheckedStore(row, model.packed([head | finding for finding in listed]))

    def weigh(self, task: PlannedTask) -> int:
        """Bytes on the disk that are to be read, and something for every file."""
        files = unit_files(task.task)
        size = sum(file.data_size for file in files)
        return max(size - known_size(task.task), 0) + FILE_WEIGHT * len(files)

    def name(self, task: PlannedTask) -> str:
        """The first file of a task."""
        return task.files[0] if task.files else task.key

    def failed(self, error: Exception) -> model.CheckedStore:
        """The row of a store that could not be opened or checked."""
        return model.CheckedStore(model.StoreRow(run_id=self.asked.run_id, **failure_of(self.place, error)))


def failure_of(place: Path, error: Exception) -> dict[str, Any]:
    """What the row of any job says of a store that could not be opened or worked on."""
    root = str(place)
    return {
        "broker": broker_name(root, None),
        "root": root,
        "state": "failed",
        "exit_code": EXIT_OPERATIONAL if isinstance(error, RocketfsckError) else EXIT_INTERNAL,
        "error": error_text(root, error),
    }


def error_text(root: str, error: Exception) -> str:
    """What an error says of a store, in few characters that can be printed."""
    known = isinstance(error, RocketfsckError)
    text = str(error) if known else f"internal error: {type(error).__name__}: {error}"
    return printable(text.removeprefix(f"{root}: "))[:ERROR_LENGTH]


def _row(task: CheckJob, store: Store, report: Report, verdict: Verdict, listed_count: int) -> model.StoreRow:
    asked = task.asked
    narrowed = bool(asked.options.select or asked.options.ignore)
    prospect, root = verdict.prospect, str(store.root)
    blank = model.StoreRow(asked.run_id, broker_name(root, None), root, verdict.state, 0)
    return replace(
        blank,
        exit_code=check_status(report, verdict.state, narrowed=narrowed),
        may_start=verdict.may_start,
        version=verdict.version,
        error_count=verdict.error_count,
        warning_count=verdict.warning_count,
        info_count=verdict.info_count,
        unlisted_finding_count=sum(report.counts.values()) - listed_count if asked.finding_limit else None,
        lost_record_count=None if verdict.messages is None else verdict.messages.now.lost_count,
        lost_entry_count=0 if prospect is None else prospect.lost_entry_count,
        damaged_byte_count=verdict.damaged_byte_count,
        file_count=report.store.file_count,
        byte_count=report.store.byte_count,
        checked_byte_count=report.coverage.done_byte_count,
        read_byte_count=report.coverage.read_byte_count,
        taken_over_byte_count=report.coverage.taken_over_byte_count,
        oldest_read_timestamp=None if report.since is None else report.since.oldest_read_timestamp,
        level=asked.options.level,
        message_count=None if verdict.messages is None else verdict.messages.now.in_log_count,
        is_complete=report.coverage.complete and not any(item.operational for item in report.not_checked),
        not_checked=_not_checked(report),
        next_command=verdict.next_command,
    )


def _not_checked(report: Report) -> str | None:
    """The first files that could not be read, and why."""
    items = (item for item in report.not_checked if item.operational)
    texts = [_named(item.what, item.reason, report.store.root) for item in islice(items, UNREAD_LIMIT)]
    return printable("; ".join(texts))[:ERROR_LENGTH] if texts else None


def _named(what: str, reason: str, root: str) -> str:
    """A reason with the name of the file, once: below the root of the store."""
    said = reason.removeprefix(f"{root}/")
    return said if said.startswith((f"{what}: ", f"{what} at byte ")) else f"{what}: {said}"


FINDING_LIMIT = 1000
"""Findings of a store in the table of findings, the worst; the row of the store counts all."""
_ALONE = ("baseline", "resume", "max_duration")
"""Options that are about one store, or one machine's clock."""


def check_stores(
    paths: Sequence[Path | str],
    options: CheckOptions | None = None,
    engine: Engine | None = None,
    *,
    finding_limit: int = FINDING_LIMIT,
    facts: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    version: str | None = None,
) -> model.FleetReport:
    """Check the stores at `paths`, which may have wildcards or be URLs, and judge each.

    Without `engine`, or on a `LocalEngine`, small stores are checked several at once, a core each, and large
    ones one after the other on all cores; on Spark a store is opened where its task runs, and a large one is
    many tasks. A store that cannot be opened or checked is a row with its error. At most `finding_limit`
    findings of a store are kept. `facts` are arguments of `open_store` for every store; `policy` changes
    severities (`verify.options`); `version` asks for the start of a broker of that version. `options.since`
    is a directory that has a state file for each store; all workers of a cluster must see the same one.

    Raises UsageError for options that make no sense for several stores, or without any path;
    StoreError if the findings cannot be kept in a temporary file.
    """
    options = options or CheckOptions()
    for name in _ALONE:
        if getattr(options, name) is not None:
            raise UsageError(f"{name} is for the check of one store")
    options.selected_rules()
    if version is not None:
        dialect_for(version)
    if finding_limit < 0:
        raise UsageError("the number of findings of a store is at least 0")
    engine = engine or LocalEngine(options.jobs)
    started, now = time.monotonic(), time.time()
    asked = model.FleetRequest(
        run_id=make_run_id(now),
        options=replace(options, now_timestamp=options.now_timestamp or int(now * 1000)),
        facts=facts or {},
        policy=policy or {},
        version=version,
        finding_limit=finding_limit,
    )
    if options.since is not None and isinstance(engine, LocalEngine) and not is_remote(options.since):
        with named_errors(options.since, "cannot be made"):
            options.since.mkdir(parents=True, exist_ok=True)
    jobs = [CheckJob(place, _with_state(asked, place)) for place in find_places(paths)]
    rows: dict[int, model.StoreRow] = {}
    findings = model.FindingFile()
    with phase("checking the stores", len(jobs), "files") as at:
        for number, checked, seconds in run_jobs(engine, jobs):
            findings.add(number, checked.findings)
            rows[number] = replace(checked.row, seconds=round(seconds, 3))
            at.at(len(rows))
    return model.FleetReport(
        run_id=asked.run_id,
        level=options.level,
        started_timestamp=int(now * 1000),
        seconds=round(time.monotonic() - started, 3),
        stores=tuple(rows[number] for number in range(len(jobs))),
        findings=findings,
    )


def _with_state(asked: model.FleetRequest, place: Path) -> model.FleetRequest:
    """What is asked about a store, with a state file of its own, which is read and written where the store is
    checked."""
    directory = asked.options.since
    if directory is None:
        return asked
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()
    return replace(
        asked, options=replace(asked.options, since=absolute_path(directory) / f"{digest[:32]}.state")
    )


def make_run_id(now: float) -> str:
    """A name for a run that sorts by time, to the millisecond, and that no other run has."""
    second, millisecond = divmod(int(now * 1000), 1000)
    begun = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
    return f"{begun}-{millisecond:03}{secrets.token_hex(3)}"
