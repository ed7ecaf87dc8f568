"""What replicas' own files say, as lines for people: nodes of DLedger's, epochs of controller mode, how the
offsets of consumer groups differ, and which node of a group to start first.

The check of many stores as text: how many are in which state, the worst ones, what to run next.

Checked 12 stores below /data (1.2 GiB, level full, 3.1 s): 1 refused, 1 failed, 2 damaged, 8 healthy.

  state    errors  warnings  lost  store
  refused      12         3   129  broker-a
  failed        -         -     -  broker-x
  …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from rocketfsck.cli.show import text as say
from rocketfsck.common.wording import duration
from rocketfsck.pipeline.fleet.model import FleetReport, StoreRow

if TYPE_CHECKING:
    from rocketfsck.query.nodes import NodeSide
    from rocketfsck.repair.compare import configs
    from rocketfsck.repair.compare.groups import Replica, ReplicaGroup

SHOWN = 10
"""Rows of a table, and names in a line."""
_HEAD = ("group", "topic", "queues", "apart", "to B: again", "skipped", "to A: again", "skipped")


def replication_lines(found: configs.Replication) -> Iterator[str]:
    """DLedger's nodes, where their entries part, who may lead; the epochs of controller mode."""
    for name, node in zip(("A", "B"), found.nodes, strict=True):
        if node is not None:
            yield f"{name} is DLedger's node {say.visible(node.directory)}: {_node(node)}"
    if found.parting is not None:
        terms = [_term(term) for term in found.parting.terms]
        what = "headers" if found.parting.in_header else "bodies"
        where = f"{found.parting.physical_offset} on, entry {found.parting.index}"
        differ = f"{terms[0]} in A, {terms[1]} in B; their {what} differ"
        yield f"DLedger's entries differ from {where}: {differ}"
    if found.ahead is not None:
        yield f"{found.ahead} has the later last entry: {found.ahead} may lead, and the other follows"
    if found.epochs is not None:
        epochs = found.epochs
        yield f"Epochs: the last epoch is {epochs.last_epochs[0]} in A and {epochs.last_epochs[1]} in B"
        if epochs.common_epoch is None:
            yield "  no epoch begins at the same offset in both: a slave would copy everything again"
        else:
            last = f"epoch {epochs.common_epoch} is the last that both have"
            yield f"  {last}: a slave continues from {epochs.consistent_offset}"


def _node(node: NodeSide) -> str:
    if node.last_index is None:
        return "no sound entry"
    agreed = "unknown" if node.committed_index is None else str(node.committed_index)
    last = f"the last of term {node.last_term}, which end at {node.end_offset}"
    agreed = f"agreed on up to {agreed}, votes in term {node.current_term}"
    return f"entries {node.first_index} to {node.last_index}, {last}; {agreed}"


def _term(term: int | None) -> str:
    return "no sound entry" if term is None else f"term {term}"


def config_lines(found: configs.ConfigsCompared) -> Iterator[str]:
    """Committed offsets, offsets of delay levels, topics and groups, where they differ."""
    yield from _committed(found.committed)
    if found.delays.difference_count:
        delays = found.delays
        yield f"Delay offsets differ at {say.count_of(delays.queue_count, 'level')}:"
        for name, change in (("B", delays.to_b), ("A", delays.to_a)):
            again = f"delivers {say.count_of(change.again_count, 'message')} again"
            yield f"  a broker that continues with {name} {again}, and passes over {change.skipped_count:,}"
        yield from _after(delays)
    for side in found.one_sided:
        topics, groups = ("topic", side.topic_count, side.topics), ("group", side.group_count, side.groups)
        for noun, count, names in (topics, groups):
            if count:
                yield f"Only {side.side} lists {say.count_of(count, noun)}: {_names(names, count)}"
    reasons = [f"Groups and topics not compared: {say.visible(reason)}" for reason in found.not_compared]
    yield from say.some(reasons, len(reasons), SHOWN, "  and {:,} more reasons (--format json has them)")


def differing_offsets(found: configs.ConfigsCompared) -> str:
    """What differs, for the end of a sentence; "" where nothing does."""
    tables = (("committed", found.committed), ("delay", found.delays))
    names = " and ".join(name for name, table in tables if table.difference_count)
    return f"; {names} offsets differ" if names else ""


def _committed(found: configs.OffsetsCompared) -> Iterator[str]:
    if not found.difference_count:
        return
    queues = say.count_of(found.queue_count, "queue")
    yield f"Committed offsets differ in {queues} of {say.count_of(found.group_count, 'group')}:"
    yield f"  consumers that change from A to B {_notice(found.to_b)}"
    yield f"  consumers that change from B to A {_notice(found.to_a)}"
    rows: list[tuple[str, ...]] = [_HEAD]
    for row in found.differences[:SHOWN]:
        counts = (row.queue_count, row.apart_count)
        changes = [n for to in (row.to_b, row.to_a) for n in (to.again_count, to.skipped_count)]
        group, topic = say.visible(row.group), say.visible(row.topic)
        rows.append((group, topic, *(f"{number:,}" for number in (*counts, *changes))))
    yield from (f"  {line}" for line in say.aligned(rows, right=range(2, len(_HEAD))))
    if found.difference_count > SHOWN:
        yield f"  and {found.difference_count - SHOWN:,} more rows (--format json has up to 1,000)"
    yield from _after(found)


def _notice(change: configs.ConsumerEffect) -> str:
    counts = (("get up to {} again", change.again_count), ("never get up to {}", change.skipped_count))
    noticed = [text.format(say.count_of(number, "message")) for text, number in counts if number]
    return " and ".join(noticed) or "notice nothing"


def _after(found: configs.OffsetsCompared) -> Iterator[str]:
    if found.behind is None:
        yield "  each store has higher offsets than the other somewhere; a slave that lags has none"
    else:
        yield f"  {found.behind} has no higher offset, like a slave, which copies offsets every 10 seconds"


def _names(names: Sequence[str], count: int) -> str:
    further = f", and {count - SHOWN:,} more" if count > SHOWN else ""
    return ", ".join(map(say.visible, names[:SHOWN])) + further


_NODES = {"dledger": "nodes of DLedger", "controller": "replicas under a controller", "plain": "replicas"}


def group_lines(group: ReplicaGroup, names: Sequence[str]) -> Iterator[str]:
    """Which node of a group to start first, and what each start would lose. The members have these names."""
    first, *others = zip(group.members, names, strict=True)
    head = f"{len(group.members)} {_NODES[group.manner]}"
    if group.is_level:
        yield f"Group: {head}, all with the same records: any of them may be started first"
        return
    yield f"Group: {head}; start {say.visible(first[1])} first"
    yield f"  {say.visible(first[1])} {_ends(first[0], group)}"
    for member, name in others:
        yield f"  {say.visible(name)} {_standing(member, group)}"
    if group.next_loss_count:
        lost = say.count_of(group.next_loss_count, "record")
        second = say.visible(others[0][1])
        yield f"  Without {say.visible(first[1])}, {second} leads, and {lost} of the first are lost"
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
        lacks = f"is behind by {say.count_of(member.lacking_count, 'record')}"
        if member.cut_off:
            return f"{lacks}, and never gets them: no epoch holds its end (rocketfsck convert controller)"
        return f"{lacks}, and gets them"
    if member.relation == "damaged":
        count = say.count_of(member.only_here_count or member.lacking_count, "record")
        behind = member.behind_count if member.only_here_count else 0
        rest = f", and is behind by {say.count_of(behind, 'record')}" if behind else ""
        return f"has the same records, but for {count} that one of the two has damaged{rest}"
    of = f" of {_epoch(group)} {member.last_epoch}" if member.last_epoch is not None else ""
    parted = f"parted at {member.parting_offset or 0:,}, and ends with other records{of}"
    mine = say.count_of(member.only_here_count, "record")
    if group.manner == "plain":
        return f"{parted}: it alone has {mine}, and keeps them"
    agreed = ", which its own majority had confirmed" if member.agreed else ""
    return f"{parted}: it loses {mine} that only it has{agreed}"


def _epoch(group: ReplicaGroup) -> str:
    return "term" if group.manner == "dledger" else "epoch"


ROW_LIMIT = 20
"""Stores in the table."""
NEXT_LIMIT = 3
ERROR_LIMIT = 5
_TABLE_HEAD = ("state", "errors", "warnings", "lost")
_NEW = "new"
_STORE = "store"
_LEAST_NAME = 8
_GAP = 2


SOUND = ("healthy", "unclean")
"""States in which there is nothing to do but to start the broker."""


def _is_sound(row: StoreRow) -> bool:
    """Whether there is nothing to do about a store; at level quick, as far as that level looks."""
    return row.state in SOUND or (row.state == "partial" and bool(row.is_complete))


def stores_lines(
    report: FleetReport, palette: say.Palette, columns: int, *, everything: bool, quiet: bool
) -> Iterator[str]:
    """The head; unless `quiet`, the stores that are not healthy, or `everything`, and the next commands."""
    base = _base([row.root for row in report.stores])
    yield from say.wrapped(_summary(report, base), columns)
    if report.oldest_read_timestamp is not None:
        yield from say.wrapped(_since(report, report.oldest_read_timestamp), columns)
    if report.not_compared is not None:
        yield from say.wrapped(f"Not compared with earlier runs: {say.visible(report.not_compared)}", columns)
    elif report.compared_timestamp is not None:
        yield from say.wrapped(_changes(report, report.compared_timestamp), columns)
    if quiet:
        return
    worst = report.worst_first()
    listed = worst if everything else [row for row in worst if not _is_sound(row)]
    shown = listed if everything else listed[:ROW_LIMIT]
    if shown:
        head, *rows = say.aligned(_table(shown, base, bool(report.compared)), right=(1, 2, 3, 4))
        yield from ("", f"  {palette.bold(head)}", *(f"  {row}" for row in rows))
    hidden = len(listed) - len(shown)
    if hidden:
        yield f"  and {say.count_of(hidden, 'store')} more: -v shows every store"
    yield from _errors(shown, columns, everything=everything)
    yield from _new(report, base, columns)
    yield from _groups(report, base, columns)
    yield from _next(listed, palette, everything=everything)


def _summary(report: FleetReport, base: str) -> str:
    size = say.byte_size(sum(row.byte_count or 0 for row in report.stores))
    states = ", ".join(f"{count:,} {state}" for state, count in report.state_counts.items())
    where = f" below {say.visible(base)}" if base else ""
    stores = say.count_of(len(report.stores), "store")
    about = f"{size}, level {report.level}, {duration(report.seconds)}"
    return f"Checked {stores}{where} ({about}): {states}."


def _since(report: FleetReport, oldest: int) -> str:
    read = say.byte_size(sum(row.read_byte_count or 0 for row in report.stores))
    taken = say.byte_size(sum(row.taken_over_byte_count or 0 for row in report.stores))
    oldest_read = say.timestamp(oldest)
    return f"{read} read, {taken} taken over; the part that was read longest ago was read {oldest_read}."


def _changes(report: FleetReport, since: int) -> str:
    compared = report.compared
    having = say.count_of(sum(bool(row.new_finding_count) for row in compared), "store")
    new = sum(row.new_finding_count or 0 for row in compared)
    gone = sum(row.gone_finding_count or 0 for row in compared)
    rest = len(report.stores) - len(compared)
    more = f" Not compared: {say.count_of(rest, 'store')}." if rest else ""
    among = f" in {having}" if new else ""
    return f"New since {say.timestamp(since)}: {say.count_of(new, 'problem')}{among}; gone: {gone:,}.{more}"


def _base(roots: Sequence[str]) -> str:
    """The directory that all stores are in; "" for one store, and for stores without one but /."""
    places = [root.split("/") for root in roots]
    levels = zip(*(place[:-1] for place in places), strict=False) if len(places) > 1 else ()
    base = "/".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
    return "" if base.rstrip("/").endswith(":") else base


def _below(root: str, base: str) -> str:
    return root[len(base) + 1 :] if base else root


def _name(row: StoreRow, base: str) -> str:
    return say.visible(_below(row.root, base))


def _table(rows: Sequence[StoreRow], base: str, has_new: bool) -> Iterator[tuple[str, ...]]:
    """The rows, with names as long as there is room for them on a terminal; `has_new`: with what is new."""
    cells = [(*_TABLE_HEAD, _NEW) if has_new else _TABLE_HEAD, *(_cells(row, has_new) for row in rows)]
    limit = say.table_columns()
    before = sum(max(map(len, column)) + _GAP for column in zip(*cells, strict=True))
    for cell, name in zip(cells, [_STORE, *(_name(row, base) for row in rows)], strict=True):
        short = name if limit is None else _end_of(name, max(limit - say.MARGIN - before, _LEAST_NAME))
        yield (*cell, short)


def _cells(row: StoreRow, has_new: bool) -> tuple[str, ...]:
    numbers = (row.error_count, row.warning_count, row.lost_record_count)
    more = (row.new_finding_count,) if has_new else ()
    return (row.state, *("-" if number is None else f"{number:,}" for number in (*numbers, *more)))


def _end_of(text: str, room: int) -> str:
    """A path, without its begin where it is too long: the end tells stores apart."""
    if say.width(text) <= room:
        return text
    while say.width(text) > room - 1:
        text = text[1:]
    return f"…{text}"


def _errors(rows: Sequence[StoreRow], columns: int, *, everything: bool) -> Iterator[str]:
    """Why stores, or files of them, could not be checked."""
    failed = [(row.root, text) for row in rows if (text := row.error or row.not_checked) is not None]
    if failed:
        yield from ("", "Could not be checked")
    for root, why in failed if everything else failed[:ERROR_LIMIT]:
        yield from _item(f"{say.visible(root)}: {say.sentence(why)}", columns)


def _item(text: str, columns: int) -> Iterator[str]:
    first, *more = say.wrapped(text, columns - 4)
    yield f"  {first}"
    yield from (f"    {line}" for line in more)


def _new(report: FleetReport, base: str, columns: int) -> Iterator[str]:
    """The first findings that the last run of their store did not have."""
    if not report.new_findings:
        return
    yield from ("", "New")
    for item in report.new_findings:
        name = say.visible(_below(str(item["root"]), base))
        where = say.visible(str(item["file"] or "the store"))
        said = f"{item['rule']} {item['slug']} in {where}: {say.sentence(item['message'])}"
        yield from _item(f"{name}: {said}", columns)
    hidden = sum(row.new_finding_count or 0 for row in report.stores) - len(report.new_findings)
    if hidden:
        yield f"  and {hidden:,} more, in the table of findings"


def _groups(report: FleetReport, base: str, columns: int) -> Iterator[str]:
    """Groups of nodes among the stores: which to start first."""
    for group in report.node_groups:
        yield ""
        for line in group_lines(group, [_below(str(member.path), base) for member in group.members]):
            yield from say.wrapped(line.lstrip(), columns, "  " if line.startswith(" ") else "")


def _next(rows: Sequence[StoreRow], palette: say.Palette, *, everything: bool) -> Iterator[str]:
    """The commands for the worst stores; never broken, because they are to be pasted."""
    commands = [row.next_command for row in rows if row.next_command is not None]
    shown = commands if everything else commands[:NEXT_LIMIT]
    yield from say.section("Next", (f"  {palette.good(say.sentence(command))}" for command in shown))
