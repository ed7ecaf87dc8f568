"""What replicas' own files say, as lines for people: nodes of DLedger's, epochs of controller mode, how the
offsets of consumer groups differ, and which node of a group to start first."""

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
    from rocketfsck.repair.compare.groups import Replica, ReplicaGroup

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


_NODES = {"dledger": "nodes of DLedger", "controller": "replicas under a controller", "plain": "replicas"}


def group_lines(group: ReplicaGroup, names: Sequence[str]) -> Iterator[str]:
    """Which node of a group to start first, and what each start would lose. The members have these names."""
    first, *others = zip(group.members, names, strict=True)
    head = f"{len(group.members)} {_NODES[group.manner]}"
    if group.is_level:
        yield f"Group: {head}, all with the same records: any of them may be started first"
        return
    yield f"Group: {head}; start {visible(first[1])} first"
    yield f"  {visible(first[1])} {_ends(first[0], group)}"
    for member, name in others:
        yield f"  {visible(name)} {_standing(member, group)}"
    if group.next_loss_count:
        lost = count_of(group.next_loss_count, "record")
        second = visible(others[0][1])
        yield f"  Without {visible(first[1])}, {second} leads, and {lost} of the first are lost"
    if group.manner == "plain" and any(member.relation == "parted" for member in group.members):
        yield "  A slave removes nothing: copy the log of the first to it, or heal it (compare --heal)"


def _ends(member: Replica, group: ReplicaGroup) -> str:
    if group.manner == "dledger":
        return f"has the latest last entry, {member.last_index:,} of term {member.last_epoch}: it leads"
    if group.manner == "controller":
        return f"has the latest epoch, {member.last_epoch}, and the longest log of it"
    return f"has the longest log, up to {member.end_offset:,}"


def _standing(member: Replica, group: ReplicaGroup) -> str:
    if member.relation == "level":
        return "has the same records"
    if member.relation == "behind":
        lacks = f"is behind by {count_of(member.lacking_count, 'record')}"
        if member.cut_off:
            return f"{lacks}, and never gets them: no epoch holds its end (rocketfsck convert controller)"
        return f"{lacks}, and gets them"
    if member.relation == "damaged":
        count = count_of(member.only_here_count or member.lacking_count, "record")
        behind = member.behind_count if member.only_here_count else 0
        rest = f", and is behind by {count_of(behind, 'record')}" if behind else ""
        return f"has the same records, but for {count} that one of the two has damaged{rest}"
    of = f" of {_epoch(group)} {member.last_epoch}" if member.last_epoch is not None else ""
    parted = f"parted at {member.parting_offset or 0:,}, and ends with other records{of}"
    mine = count_of(member.only_here_count, "record")
    if group.manner == "plain":
        return f"{parted}: it alone has {mine}, and keeps them"
    agreed = ", which its own majority had confirmed" if member.agreed else ""
    return f"{parted}: it loses {mine} that only it has{agreed}"


def _epoch(group: ReplicaGroup) -> str:
    return "term" if group.manner == "dledger" else "epoch"
