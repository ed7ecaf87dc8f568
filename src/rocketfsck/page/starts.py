"""What brokers keep and cut when they start, for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketfsck.page.limits import Limits
from rocketfsck.page.model import FileFate, StartSaid
from rocketfsck.page.table import shown
from rocketfsck.query.start import model
from rocketfsck.query.start.verdict import Prediction, StartVerdict, verdict_of

StartText = Callable[[StartVerdict], tuple[str, str]]
"""The versions that a verdict is about, and what their brokers do, as text."""


def starts_of(predictions: Sequence[Prediction], text_of: StartText, limits: Limits) -> tuple[StartSaid, ...]:
    """A row for each class of versions."""
    return tuple(_start(verdict_of(one), one.start, text_of, limits) for one in predictions)


def starts_said(starts: Sequence[StartVerdict], text_of: StartText, limits: Limits) -> tuple[StartSaid, ...]:
    """The same of verdicts alone: without ranges and files."""
    return tuple(_start(start, None, text_of, limits) for start in starts)


def _start(verdict: StartVerdict, start: model.Start | None, text_of: StartText, limits: Limits) -> StartSaid:
    versions, text = text_of(verdict)
    losses = None if start is None or not start.loads else start.losses
    changes = () if start is None else start.files
    ignored = () if start is None else start.ignored
    fates = [FileFate(shown(one.file, limits.text_size), one.change, one.why) for one in changes]
    fates += [
        FileFate(shown(one.file, limits.text_size), "ignored", shown(one.why, limits.text_size))
        for one in ignored
    ]
    return StartSaid(
        versions,
        shown(text, limits.text_size),
        verdict.covered,
        verdict.loads,
        None if start is None or start.min_offset < 0 else start.min_offset,
        None if start is None else start.cut_offset,
        verdict.cut_count,
        verdict.lost_count,
        verdict.unreadable_count,
        verdict.queues_destroyed,
        () if losses is None else losses.cut[: limits.range_count],
        () if losses is None else losses.by_queue[: limits.range_count],
        () if losses is None else losses.unreadable[: limits.range_count],
        tuple(fates[: limits.start_file_count]),
        len(fates),
    )
