"""What two replicas' own files say, as lines for people: nodes of DLedger's, epochs of controller mode, and
how the offsets of consumer groups differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.cli.show.text import aligned, count_of, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketfsck.query.nodes import NodeSide
    from rocketfsck.repair.compare.configs import (
        ConfigsCompared,
        ConsumerEffect,
        OffsetsCompared,
        Replication,
    )

SHOWN = 10
"""Rows of a table, and names in a line."""
_HEAD = ("group", "topic", "queues", "apart", "to B: again", "skipped", "to A: again", "skipped")


def replication_lines(found: Replication) -> Iterator[str]:
    """DLedger's nodes, where their entries part, who may lead; the epochs of controller mode."""
    for name, node in zip(("A", "B"), found.nodes, strict=True):
        if node is not None:
            yield f"{name} is DLedger's node {visible(node.directory)}: {_node(node)}"
    if found.parting is not None:
        terms = [_term(term) for term in found.parting.terms]
        what = "headers" if found.parting.in_header else "bodies"
        yield (
            f"DLedger's entries differ from {found.parting.physical_offset} on, entry "
            f"{found.parting.index}: {terms[0]} in A, {terms[1]} in B; their {what} differ"
        )
    if found.ahead is not None:
        yield f"{found.ahead} has the later last entry: {found.ahead} may lead, and the other follows"
    if found.epochs is not None:
        epochs = found.epochs
        yield f"Epochs: the last epoch is {epochs.last_epochs[0]} in A and {epochs.last_epochs[1]} in B"
        if epochs.common_epoch is None:
            yield "  no epoch begins at the same offset in both: a slave would copy everything again"
        else:
            yield (
                f"  epoch {epochs.common_epoch} is the last that both have: a slave continues from "
                f"{epochs.consistent_offset}"
            )


def _node(node: NodeSide) -> str:
    if node.last_index is None:
        return "no sound entry"
    agreed = "unknown" if node.committed_index is None else str(node.committed_index)
    return (
        f"entries {node.first_index} to {node.last_index}, the last of term {node.last_term}, which end at "
        f"{node.end_offset}; agreed on up to {agreed}, votes in term {node.current_term}"
    )


def _term(term: int | None) -> str:
    return "no sound entry" if term is None else f"term {term}"


def config_lines(found: ConfigsCompared) -> Iterator[str]:
    """Committed offsets, offsets of delay levels, topics and groups, where they differ."""
    yield from _committed(found.committed)
    if found.delays.difference_count:
        delays = found.delays
        yield f"Delay offsets differ at {count_of(delays.queue_count, 'level')}:"
        for name, change in (("B", delays.to_b), ("A", delays.to_a)):
            yield (
                f"  a broker that continues with {name} delivers {count_of(change.again_count, 'message')} "
                f"again, and passes over {change.skipped_count:,}"
            )
        yield from _after(delays)
    for side in found.one_sided:
        for noun, count, names in (
            ("topic", side.topic_count, side.topics),
            ("group", side.group_count, side.groups),
        ):
            if count:
                yield f"Only {side.side} lists {count_of(count, noun)}: {_names(names, count)}"
    yield from (f"Groups and topics not compared: {visible(reason)}" for reason in found.not_compared[:SHOWN])
    if len(found.not_compared) > SHOWN:
        yield f"  and {len(found.not_compared) - SHOWN:,} more reasons (--format json has them)"


def differing_offsets(found: ConfigsCompared) -> str:
    """What differs, for the end of a sentence; "" where nothing does."""
    tables = (("committed", found.committed), ("delay", found.delays))
    names = " and ".join(name for name, table in tables if table.difference_count)
    return f"; {names} offsets differ" if names else ""


def _committed(found: OffsetsCompared) -> Iterator[str]:
    if not found.difference_count:
        return
    queues = count_of(found.queue_count, "queue")
    yield f"Committed offsets differ in {queues} of {count_of(found.group_count, 'group')}:"
    yield f"  consumers that change from A to B {_notice(found.to_b)}"
    yield f"  consumers that change from B to A {_notice(found.to_a)}"
    rows: list[tuple[str, ...]] = [_HEAD]
    for row in found.differences[:SHOWN]:
        counts = (row.queue_count, row.apart_count)
        changes = [n for to in (row.to_b, row.to_a) for n in (to.again_count, to.skipped_count)]
        group, topic = visible(row.group), visible(row.topic)
        rows.append((group, topic, *(f"{number:,}" for number in (*counts, *changes))))
    yield from (f"  {line}" for line in aligned(rows, right=range(2, len(_HEAD))))
    if found.difference_count > SHOWN:
        yield f"  and {found.difference_count - SHOWN:,} more rows (--format json has up to 1,000)"
    yield from _after(found)


def _notice(change: ConsumerEffect) -> str:
    counts = (("get up to {} again", change.again_count), ("never get up to {}", change.skipped_count))
    return " and ".join(text.format(count_of(n, "message")) for text, n in counts if n) or "notice nothing"


def _after(found: OffsetsCompared) -> Iterator[str]:
    if found.behind is None:
        yield "  each store has higher offsets than the other somewhere; a slave that lags has none"
    else:
        yield f"  {found.behind} has no higher offset, like a slave, which copies offsets every 10 seconds"


def _names(names: Sequence[str], count: int) -> str:
    further = f", and {count - SHOWN:,} more" if count > SHOWN else ""
    return ", ".join(map(visible, names[:SHOWN])) + further
