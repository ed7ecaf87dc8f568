"""Drives a job over many stores on any engine, whatever becomes of each.

    each store as one task        small ones are done, large ones say how much they are
    groups of large stores        their tasks in shares, then their ends, which may give a stage away again

The driver has what one group gives away in memory, and of each other store its result. Results come in any
order.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet.stages import (
    HELD_SIZE,
    WHOLE_WEIGHT,
    Begin,
    End,
    Given,
    Large,
    Share,
    StoreJob,
    bounded,
    pack,
    pack_results,
    run_here,
    run_share,
    run_small,
    run_step,
    task_of,
)

_NO_LIMIT = 1 << 62

Found = tuple[int, Any, float]
"""The number of a store, the result of its job, the seconds that all of it took."""


def run_jobs(engine: Engine, jobs: Sequence[StoreJob]) -> Iterator[Found]:
    """Yield the result of each job as it ends.

    Several small stores run at once, a core each. In this process large ones follow one after the other, on
    all cores; elsewhere see above.
    """
    begins = [Begin(number, job, WHOLE_WEIGHT, engine.job_count) for number, job in enumerate(jobs)]
    is_here = isinstance(engine, LocalEngine)
    large: list[tuple[Begin, int]] = [(begin, 0) for begin in begins]
    seconds = [0.0] * len(jobs)
    if not is_here or (len(jobs) > 1 and engine.job_count > 1):
        large = []
        for begin, found, took in surviving(engine, run_small, begins):
            seconds[begin.number] = took
            if isinstance(found, Large):
                large.append((begin, found.size))
            elif isinstance(found, Dead):
                # begins again and gives all tasks away: then the task that does it is alone, and has a name
                large.append((replace(begin, whole_weight=0), 0))
            else:
                yield begin.number, _result(begin.job, found), took
    if isinstance(engine, LocalEngine):
        for begin, _ in large:
            started = time.monotonic()
            ended = run_here(replace(begin, whole_weight=_NO_LIMIT, threads=engine.jobs))
            took = seconds[begin.number] + time.monotonic() - started
            yield begin.number, _result(begin.job, ended), took
        return
    for group in bounded([begin for begin, _ in large], [size for _, size in large], HELD_SIZE):
        yield from _run_group(engine, group, seconds)


def _run_group(engine: Engine, begins: Sequence[Begin], seconds: list[float]) -> Iterator[Found]:
    """The jobs of a group of large stores: all give a stage away, which is done, and continue with it."""
    jobs = {begin.number: begin for begin in begins}
    known: dict[int, tuple[tuple[bytes, ...], ...]] = defaultdict(tuple)
    steps: Sequence[Begin | End] = begins
    while steps:
        given: dict[int, Given] = {}
        for step, found, took in surviving(engine, run_step, steps):
            number = step.number
            seconds[number] += took
            if isinstance(found, Given):
                given[number] = found
            else:
                yield number, _result(jobs[number].job, found), seconds[number]
        pieces = pack([(number, item.weights) for number, item in given.items()], engine.job_count)
        shares = [Share(piece.store, given[piece.store].packed, piece.first, piece.last) for piece in pieces]
        results: dict[int, dict[int, bytes]] = {number: {} for number in given}
        for share, done, took in surviving(engine, run_share, shares, _halves):
            seconds[share.number] += took
            if isinstance(done, Dead):
                done = _named_error(jobs[share.number].job, share, done)
            results[share.number][share.first] = done
        for number, by_first in results.items():
            known[number] += (tuple(by_first[first] for first in sorted(by_first)),)
        steps = [End(jobs[number], item.packed, known[number]) for number, item in given.items()]


def _result(job: StoreJob, found: Any) -> Any:
    error = found.error if isinstance(found, Dead) else found
    return job.failed(error) if isinstance(error, StoreError) else found.result


def _halves(share: Share) -> tuple[Share, ...]:
    """A share of several tasks as two; nothing for what cannot be halved."""
    if share.last - share.first < 2:
        return ()
    middle = (share.first + share.last) // 2
    return replace(share, last=middle), replace(share, first=middle)


def _named_error(job: StoreJob, share: Share, dead: Dead) -> bytes:
    """The result of a task that no worker survived: an error with the name of its file."""
    path = job.name(task_of(share.packed, share.first))
    return pack_results([StoreError(f"cannot be read by any worker: {dead.error}", path=path)])
