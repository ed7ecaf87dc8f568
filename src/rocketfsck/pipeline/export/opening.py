"""The stores of an export are opened and listed where the work is done; the driver gets what is in them.

A store that cannot be opened, or whose log was cut or replaced, is left out and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rocketfsck.engine import Engine
from rocketfsck.errors import RocketfsckError
from rocketfsck.pipeline.export.marks import Mark, continuation
from rocketfsck.pipeline.export.model import Gap
from rocketfsck.pipeline.sources import Source, open_source
from rocketfsck.pipeline.views.model import Part, Wanted
from rocketfsck.pipeline.views.table import plan_parts
from rocketfsck.progress import phase


@dataclass(frozen=True, slots=True)
class OpenTask:
    """One store to open, and the mark of its broker in the table that is appended to."""

    source: Source
    view: str
    wanted: Wanted
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """What an export reads of one store; `begin` is where it continues in the log, in bytes."""

    facts: Mapping[str, Any]
    parts: tuple[Part, ...]
    begin: int | None = None
    gap: Gap | None = None


def open_one(task: OpenTask) -> OpenedStore | RocketfsckError:
    """The kernel: open a store and list its parts, or the reason why not."""
    source, wanted = task.source, task.wanted
    try:
        begin, gap = (None, None) if task.mark is None else continuation(source, task.mark)
        if begin is not None:
            wanted = replace(wanted, begin_offset=begin)
        facts = store_facts(source)
        return OpenedStore(facts, tuple(plan_parts(task.view, [source], wanted)), begin, gap)
    except RocketfsckError as error:
        return error


def open_all(
    sources: Sequence[Source], view: str, wanted: Wanted, marks: Mapping[str, Mark], engine: Engine
) -> tuple[dict[str, OpenedStore], tuple[tuple[str, str], ...]]:
    """What is in each store, by broker, and of those that could not be opened the broker and the reason.

    Raises the first such reason if no store is left.
    """
    jobs = [OpenTask(source, view, wanted, marks.get(source.broker)) for source in sources]
    found: list[OpenedStore | RocketfsckError | None] = [None] * len(jobs)
    with phase("opening the stores", len(jobs), "files") as at:
        for done, outcome in enumerate(engine.run(open_one, jobs), 1):
            found[outcome.index] = outcome.result
            at.at(done)
    opened, failed = {}, []
    for source, result in zip(sources, found, strict=True):
        if isinstance(result, RocketfsckError):
            failed.append((source.broker, result))
        elif result is not None:
            opened[source.broker] = result
    if failed and not opened:
        raise failed[0][1]
    return opened, tuple((broker, str(error)) for broker, error in failed)


def store_facts(source: Source) -> dict[str, Any]:
    """What the manifest says of a store. Raises StoreError and UsageError as `open_source` does."""
    store = open_source(source)
    evidence = store.dialect_evidence
    return {
        "broker": source.broker,
        "store": source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "dialect": str(evidence.dialect.version),
        "dialect_given": evidence.given,
    }
