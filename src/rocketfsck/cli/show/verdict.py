"""The verdict on a store as text: the first lines that `check` and `fix` print.

Do not start a broker: its start would make the damage worse.
  Store   /data/store (RocketMQ 5.2.0 to 5.3.4)
  Start   5.2.0 to 5.3.1: starts; cuts 129 messages off the log
          5.3.2 to 5.3.4: starts and loses nothing
  Lost    1 message for good (307 damaged bytes in the commit log)
  Repair  2 actions answer 5 of 6 findings
  Next    rocketfsck fix /data/store
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.start import grouped_starts, versions_text
from rocketfsck.cli.show.table import wrapped
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.plan.law import KINDS, notice_text
from rocketfsck.repair.verdict import Prospect, State, Verdict
from rocketfsck.verify.report import StoreFacts

HEADLINES: Mapping[State, str] = {
    "healthy": "Healthy: a broker may be started.",
    "damaged": "Damaged. A broker may be started: its start loses nothing more.",
    "harmful": "Do not start a broker: its start would make the damage worse.",
    "refused": "A broker does not start on this store.",
    "running": "A broker is running on this store.",
    "partial": "Nothing is wrong in the part of the store that was checked.",
    "unknown": "The start of a broker cannot be predicted.",
}
LABEL_WIDTH = 10
START_LIMIT = 3
NOTICE_LIMIT = 3
CONFIG_LIMIT = 3


def verdict_lines(verdict: Verdict, store: StoreFacts, palette: Palette, columns: int) -> Iterator[str]:
    """The headline, and a line or a few each for the start, what is lost, the repair, the next command."""
    paint = {"healthy": palette.good, "harmful": palette.error, "refused": palette.error}
    headline = HEADLINES[verdict.state]
    if verdict.state == "damaged" and not verdict.error_count:
        headline = "Warnings only. A broker may be started: its start loses nothing more."
    if verdict.state == "unknown":
        found = verdict.error_count or verdict.warning_count
        headline = (
            f"{'Damaged' if found else 'Nothing is wrong'}, but the start of a broker cannot be predicted."
        )
    yield from (paint.get(verdict.state, palette.warning)(line) for line in wrapped(headline, columns))
    yield from labelled("Store", [f"{visible(store.root)} ({_versions(store)})"], columns)
    yield from labelled("Start", chain(_starts(verdict.starts), _configs(verdict.lost_configs)), columns)
    yield from labelled("Lost", _lost(verdict), columns)
    yield from labelled("Repair", _repair(verdict), columns)
    if verdict.next_command is not None:
        command = visible(verdict.next_command, keep_backslash=True)
        yield f"  {'Next':<{LABEL_WIDTH - 2}}{palette.good(command)}"  # never broken: it is to be pasted


def labelled(label: str, texts: Iterable[str], columns: int) -> Iterator[str]:
    """Paragraphs behind a label that stands before the first."""
    head = f"  {label}"
    for text in texts:
        for line in wrapped(text, columns - LABEL_WIDTH):
            yield f"{head:<{LABEL_WIDTH}}{line}"
            head = ""


def _versions(store: StoreFacts) -> str:
    """The versions that may have written it."""
    if len(store.versions) > 1 and not store.dialect_given:
        return f"RocketMQ {store.versions[0]} to {store.versions[-1]}"
    return f"RocketMQ {store.dialect}"


def _starts(starts: tuple[StartVerdict, ...]) -> Iterator[str]:
    """What brokers do, the worst first; what is the same for many versions once."""
    ordered = grouped_starts(starts)
    for text, alike in ordered[:START_LIMIT]:
        yield f"{versions_text(alike)}: {text}"
    left = [start for _, alike in ordered[START_LIMIT:] for start in alike]
    if left:
        yield f"{versions_text(left)}: something else; `rocketfsck simulate` shows what"


def _configs(files: tuple[str, ...]) -> Iterator[str]:
    """What a start does with config files that it cannot read."""
    if files:
        more = f" and {len(files) - CONFIG_LIMIT:,} more" if len(files) > CONFIG_LIMIT else ""
        yield (
            f"any version: resets {', '.join(map(visible, files[:CONFIG_LIMIT]))}{more}, or does not start"
        )


def _lost(verdict: Verdict) -> Iterator[str]:
    """What no repair brings back."""
    prospect, size = verdict.prospect, verdict.damaged_byte_count
    where = f"{count_of(size, 'byte')} of the commit log damaged" if size else ""
    if prospect is not None and prospect.lost_record_count:
        text = count_of(prospect.lost_record_count, "message")
        yield f"{text} for good{f' ({where})' if where else ''}"
    elif where:
        yield where
    elif prospect is not None and not prospect.unanswered_count:
        yield "nothing"


def _repair(verdict: Verdict) -> Iterator[str]:
    """What can be had back, and what consumers notice of it."""
    prospect = verdict.prospect
    if prospect is None:
        if verdict.obstacle:
            yield f"cannot be planned: {visible(verdict.obstacle, keep_backslash=True)}"
        return
    if prospect.action_count:
        yield f"{_amount(prospect)}{_safety(prospect)}"
        if prospect.assumed:
            names = ", ".join(map(visible, prospect.assumed))
            yield f"assumes {names}: confirm with --assume or --broker-conf"
        for notice in prospect.notices[:NOTICE_LIMIT]:
            kind = KINDS.get(notice.kind)
            yield visible(notice_text(notice)) if kind is not None else ""
    if prospect.unanswered_count:
        left = f"{count_of(prospect.unanswered_count, 'finding')} cannot be repaired"
        yield f"{left}: {visible(prospect.reason, keep_backslash=True)}"


def _amount(prospect: Prospect) -> str:
    actions = count_of(prospect.action_count, "action")
    total = prospect.answered_count + prospect.unanswered_count
    verb = "answers" if prospect.action_count == 1 else "answer"
    return f"{actions} {verb} {f'{prospect.answered_count:,} of ' if prospect.unanswered_count else ''}" + (
        count_of(total, "finding")
    )


def _safety(prospect: Prospect) -> str:
    if prospect.safe_count == prospect.action_count:
        return ", provably safe"
    return f", {prospect.safe_count:,} of them provably safe" if prospect.safe_count else ""
