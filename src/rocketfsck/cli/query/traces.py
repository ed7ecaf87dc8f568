"""The way to an answer, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import Palette, count_of, timestamp, visible
from rocketfsck.common.documents import members
from rocketfsck.query.answers import Answer
from rocketfsck.query.trace import IndexStep, Trace

SHOWN_ENTRIES = 50

NOT_SETTLED = "the answer is incomplete: some of these messages may be stale; --via auto checks this"


def trace_lines(trace: Trace, palette: Palette, *, everything: bool = False) -> Iterator[str]:
    """How a query got to its answer, file by file; long chains are cut unless `everything` is wanted."""
    yield palette.bold("trace")
    if trace.key is not None:
        yield f"  key {visible(trace.key)}: hash {trace.key_hash}"
    for note in trace.notes:
        yield f"  {visible(note, keep_backslash=True)}"
    for step in trace.index_steps:
        yield from _step_lines(step, palette, everything)
    for scan in trace.scan_steps:
        size = scan.end_offset - scan.start_offset
        yield (
            f"  log {scan.start_offset} to {scan.end_offset} ({count_of(size, 'byte')}): "
            f"{count_of(scan.record_count, 'message')} found; {visible(scan.why, keep_backslash=True)}"
        )


def _step_lines(step: IndexStep, palette: Palette, everything: bool) -> Iterator[str]:
    times = f"{timestamp(step.begin_timestamp)} to {timestamp(step.end_timestamp)}"
    if step.skipped is not None:
        yield palette.dim(f"  {visible(step.file)}: left out, {visible(step.skipped)} ({times})")
        return
    yield f"  {visible(step.file)}: slot {step.slot} = {step.newest}, {times}"
    shown = step.entries if everything else step.entries[:SHOWN_ENTRIES]
    rows = [
        (
            f"    entry {entry.entry}",
            f"offset {entry.physical_offset}",
            f"+{entry.time_diff} s",
            f"previous {entry.previous}",
            visible(entry.verdict),
        )
        for entry in shown
    ]
    yield from aligned(rows)
    left = len(step.entries) - len(shown)
    if left:
        yield palette.dim(f"    and {count_of(left, 'further entry', 'further entries')}")
    if step.ended:
        text = f"    {visible(step.ended, keep_backslash=True)}"
        yield palette.warning(text) if step.broken else palette.dim(text)


def answer_lines(answer: Answer, palette: Palette) -> Iterator[str]:
    """What is to be said of an answer after its messages."""
    if answer.why:
        yield (
            palette.warning(visible(answer.why, keep_backslash=True))
            if not answer.found
            else palette.dim(visible(answer.why, keep_backslash=True))
        )
    if not answer.is_complete:
        yield palette.warning(NOT_SETTLED)
    if answer.hidden:
        offsets = ", ".join(map(str, answer.hidden[:10])) + (" …" if len(answer.hidden) > 10 else "")
        what = count_of(len(answer.hidden), "message")
        yield palette.warning(f"the index does not lead to {what}, found in the log at {offsets}")
    for lead in answer.leads[:10]:
        source = f"{visible(lead.source)} points at {lead.offset}"
        yield palette.dim(f"{source}: {visible(lead.why)}")
    if len(answer.leads) > 10:
        yield palette.dim(f"and {count_of(len(answer.leads) - 10, 'further such place')}")


def trace_values(trace: Trace) -> dict[str, Any]:
    """A trace as JSON says it."""
    return {
        "key": trace.key,
        "key_hash": trace.key_hash,
        "notes": list(trace.notes),
        "index": [
            {**dict(members(step)), "entries": [dict(members(entry)) for entry in step.entries]}
            for step in trace.index_steps
        ],
        "scans": [dict(members(step)) for step in trace.scan_steps],
    }


def answer_values(answer: Answer, *, traced: bool) -> dict[str, Any]:
    """The head of an answer as JSON says it; its messages are rows."""
    head: dict[str, Any] = {
        "outcome": answer.outcome.value,
        "why": answer.why or None,
        "complete": answer.is_complete,
        "hidden": list(answer.hidden),
        "leads": [dict(members(lead)) for lead in answer.leads],
    }
    if answer.pull is not None:
        head["pull"] = dict(members(answer.pull))
    if traced and answer.trace is not None:
        head["trace"] = trace_values(answer.trace)
    return head
