"""What an action of a plan does in detail: offsets, topics, and commands that do the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rocketfsck.cli.show.text import shorten, visible
from rocketfsck.repair.plan.arguments import ConfigOrigin, OffsetChange, OffsetChanges
from rocketfsck.repair.plan.model import Action

NAME_SHOWN = 60


def detail_lines(action: Action, limit: int) -> Iterator[str]:
    """What is set group by group, and the commands that do the same on a running broker."""
    lines: list[str] = []
    if isinstance(action.arguments, OffsetChanges):
        lines = [
            f"{shorten(visible(item.group), NAME_SHOWN)}: {shorten(visible(item.topic), NAME_SHOWN)}/"
            f"{item.queue_id} {_from(item)} to {item.offset:,}{_effect(item)}"
            for item in action.arguments.changes
        ]
    elif isinstance(action.arguments, ConfigOrigin) and (action.arguments.topics or action.arguments.groups):
        yield "     the same on a running broker:"
        lines = [
            f"mqadmin updateSubGroup -b BROKER -g {shlex.quote(visible(group))}"
            for group in action.arguments.groups
        ]
        lines += [
            f"mqadmin updateTopic -b BROKER -t {shlex.quote(visible(item.topic))} -r {item.queue_count} "
            f"-w {item.queue_count} -p 6{_KINDS[item.queue_type]}"
            for item in action.arguments.topics
        ]
    yield from (f"       {line}" for line in lines[:limit])
    if len(lines) > limit:
        yield f"       … {len(lines) - limit:,} more; --format json has them all"
    if lines and isinstance(action.arguments, OffsetChanges):
        yield "     the same on a running broker from 5.0 on: mqadmin resetOffsetByTime -b BROKER"
        yield "       -g GROUP -t TOPIC -q QUEUE -o OFFSET -s now"


_KINDS = {"SimpleCQ": "", "BatchCQ": " -a +queue.type=BatchCQ"}


def _from(change: OffsetChange) -> str:
    return "from none" if change.former_offset is None else f"from {change.former_offset:,}"


def _effect(change: OffsetChange) -> str:
    """What a group notices of another offset."""
    if change.former_offset is None:
        return ""
    count = change.offset - change.former_offset
    words = f"skips {count:,}" if count > 0 else f"goes back by {-count:,}"
    return f" ({words})"
