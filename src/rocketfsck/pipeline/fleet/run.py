"""Drives the check of many stores: a task each, and a row each, whatever becomes of the others."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.pipeline.fleet.driving import attempts_of, run_jobs
from rocketfsck.pipeline.fleet.model import FleetRequest, StoreRow
from rocketfsck.pipeline.fleet.places import find_places
from rocketfsck.pipeline.fleet.results import FindingFile, FleetReport
from rocketfsck.pipeline.fleet.work import CheckJob
from rocketfsck.progress import phase
from rocketfsck.store.areas import absolute_path
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.policy import Policy

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
) -> FleetReport:
    """Check the stores at `paths`, which may have wildcards or be URLs, and judge each.

    Without `engine`, or on a `LocalEngine`, small stores are checked several at once, a core each, and large
    ones one after the other on all cores; on Spark a store is opened where its task runs, and a large one is
    many tasks. A store that cannot be opened or checked is a row with its error. At most `finding_limit`
    findings of a store are kept. `facts` are arguments of `open_store` for every store; `policy` changes
    severities (`verify.policy`); `version` asks for the start of a broker of that version. `options.since`
    is a directory that has a state file for each store; all workers of a cluster must see the same one.

    Raises UsageError for options that make no sense for several stores, or a pattern without a match;
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
    asked = FleetRequest(
        run_id=make_run_id(now),
        options=replace(options, now_timestamp=options.now_timestamp or int(now * 1000)),
        facts=facts or {},
        policy=policy or {},
        version=version,
        finding_limit=finding_limit,
    )
    if options.since is not None and isinstance(engine, LocalEngine):
        with named_errors(options.since, "cannot be made"):
            options.since.mkdir(parents=True, exist_ok=True)
    jobs = [CheckJob(place, _with_state(asked, place)) for place in find_places(paths)]
    rows: dict[int, StoreRow] = {}
    findings = FindingFile()
    with phase("checking the stores", len(jobs), "files") as at:
        for number, checked, seconds in run_jobs(engine, jobs, attempts=attempts_of(engine)):
            findings.add(number, checked.findings)
            rows[number] = replace(checked.row, seconds=round(seconds, 3))
            at.at(len(rows))
    return FleetReport(
        run_id=asked.run_id,
        level=options.level,
        started_timestamp=int(now * 1000),
        seconds=round(time.monotonic() - started, 3),
        stores=tuple(rows[number] for number in range(len(jobs))),
        findings=findings,
    )


def _with_state(asked: FleetRequest, place: Path) -> FleetRequest:
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
