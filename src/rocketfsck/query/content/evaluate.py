"""Expressions on messages, and on columns first: what a batch's columns rule out never becomes a message.

On columns a tree has two answers a row: surely true, and possibly true. Numbers and topics are decided there;
TAGS, KEYS and UNIQ_KEY by their hashes as far as these go; hosts, properties and bodies not at all.

Live records of the log by a scan of columns: only the rows that may match become messages.

Reference 2.1, 6.6.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import columns, dtypes, javatext, magic, properties
from rocketfsck.progress import phase
from rocketfsck.query.answers import Found
from rocketfsck.query.content.expression import (
    And,
    Compare,
    Match,
    MessageField,
    Node,
    Not,
    Or,
    Present,
    parse,
)
from rocketfsck.query.view import LogView, StoreView, view_of
from rocketfsck.reader.decoders import unpack
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, MessageFilter, read_message
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

Failed = Callable[[str], None]
"""Told why the content of a message is not known."""

Leaf = Present | Compare | Match
Sides = tuple[dtypes.Flags, dtypes.Flags]
"""Rows that surely match, rows that may."""

_NUMBERS = {column.name: column for column in columns.NUMBERS}
_COLUMNS = _NUMBERS | {column.name: column for column in columns.DERIVED}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Expression:
    """A parsed expression. Raises `expression.ExpressionError` for a text that is not one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse(text)
        self.unread: Counter[str] = Counter()
        """Messages whose body or content was not searched as a whole, by reason."""
        self._failed_offset = -1

    @cached_property
    def needs_body(self) -> bool:
        """Whether bodies must be read to tell."""
        return _mentions(self.tree, ("body", "content"))

    @cached_property
    def needs_faults(self) -> bool:
        """Whether the checksums of bodies must be compared to tell."""
        return _mentions(self.tree, ("faults",))

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]:
        """The rows that may match."""
        return np.flatnonzero(_ColumnTest(batch, table, base_offset).sides(self.tree)[1])

    def accepts(self, message: Message) -> bool:  # noqa: ARG002 - `matches` needs the place, too
        """Every message whose row was chosen: `matches` has the last word."""
        return True

    def matches(self, message: Message, offset: int) -> bool:
        """Whether a message that is at an offset matches."""

        def failed(reason: str) -> None:
            if offset != self._failed_offset:  # a field may be asked for more than once
                self._failed_offset = offset
                self.unread[reason] += 1

        return _matches(self.tree, message, offset, failed)


def _mentions(node: Node, names: tuple[str, ...]) -> bool:
    if isinstance(node, Not):
        return _mentions(node.inner, names)
    if isinstance(node, (And, Or)):
        return any(_mentions(part, names) for part in node.parts)
    return node.field.name in names


def _matches(node: Node, message: Message, offset: int, failed: Failed) -> bool:
    if isinstance(node, Not):
        return not _matches(node.inner, message, offset, failed)
    if isinstance(node, And):
        return all(_matches(part, message, offset, failed) for part in node.parts)
    if isinstance(node, Or):
        return any(_matches(part, message, offset, failed) for part in node.parts)
    return _decides(node, value_of(node.field, message, offset, failed))


def _decides(node: Leaf, value: Any) -> bool:
    if isinstance(node, Present):
        return bool(value)
    if isinstance(node, Match):
        return _is_found(node, value) != node.negated
    return _compares(node, value)


def value_of(field: MessageField, message: Message, offset: int, failed: Failed | None = None) -> Any:
    """The value of a field: int, str, bytes, a list of words, or None. `failed`: `content_of`."""
    if field.property_name is not None:
        return (message.properties or {}).get(field.property_name)
    name = field.name
    if name == "offset":
        return offset
    if name in ("body", "content") and message.body is None and message.body_size > 0 and failed is not None:
        failed(f"the body has more than {MAX_BODY_SIZE:,} bytes")
    return content_of(message, failed=failed) if name == "content" else _COLUMNS[name].of(message)


def content_of(message: Message, limit: int = MAX_BODY_SIZE, failed: Failed | None = None) -> bytes | None:
    """The body as it was before it was compressed; the stored bytes where it cannot be unpacked.

    At most `limit` bytes are unpacked. `failed` gets the reason why a body could not be.
    """
    if message.body is None:
        return None
    content = unpack(message.body, message.sys_flag, limit)
    reason = f"more than {limit:,} bytes come out of the body" if content.is_cut else content.unknown
    if reason is not None and failed is not None:
        failed(reason)
    return content.data


def _is_found(node: Match, value: Any) -> bool:
    if value is None:
        return False
    texts = value if isinstance(value, list) else [value]
    return any(node.pattern.search(text) is not None for text in texts)


def _compares(node: Compare, value: Any) -> bool:
    if value is None:
        return node.operator == "!="
    if isinstance(value, list):
        hit = any(item in value for item in node.values)
        return hit != (node.operator == "!=")
    if node.operator == "in":
        return value in node.values
    if node.operator == "contains":
        return node.values[0] in value
    return bool(_COMPARE[node.operator](value, node.values[0]))


class _ColumnTest:
    """One batch's answers."""

    def __init__(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> None:
        self.batch = batch
        self.table = table
        self.base_offset = base_offset
        self.count = batch.record_count

    def sides(self, node: Node) -> Sides:
        if isinstance(node, Not):
            sure, possible = self.sides(node.inner)
            return ~possible, ~sure
        if isinstance(node, (And, Or)):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            sides = [self.sides(part) for part in node.parts]
            return join.reduce([sure for sure, _ in sides]), join.reduce([possible for _, possible in sides])
        return self._leaf(node)

    def _leaf(self, node: Leaf) -> Sides:
        name = node.field.name
        if node.field.property_name is None:
            if name == "offset":
                return self._numbers(node, self.batch["pos"] + self.base_offset)
            if name in _NUMBERS:
                return self._numbers(node, self.batch[_NUMBERS[name].attribute])
            if name == "topic":
                return self._topics(node)
            if name == "transaction":
                return self._transactions(node)
            if isinstance(node, Compare) and node.operator in ("==", "in", "contains"):
                return self._hashes(node)
        return self._unknown()

    def _unknown(self) -> Sides:
        return np.zeros(self.count, np.bool_), np.ones(self.count, np.bool_)

    def _numbers(self, node: Leaf, column: NDArray[Any]) -> Sides:
        if not isinstance(node, Compare):
            found: dtypes.Flags = column != 0
        elif node.operator == "in":
            found = np.isin(column.astype(np.int64), np.array(node.values, np.int64))
        else:
            found = _COMPARE[node.operator](column.astype(np.int64), node.values[0])
        return found, found

    def _topics(self, node: Leaf) -> Sides:
        """Decided once a queue; the last element stands for records whose queue the full table refused."""
        known = [_decides(node, javatext.java_decode(topic)) for topic, _ in self.table.names]
        index = self.batch["queue_index"]
        sure = np.array([*known, False], np.bool_)[index]
        possible = np.array([*known, True], np.bool_)[index]
        return sure, possible

    def _transactions(self, node: Leaf) -> Sides:
        kinds = self.batch["sys_flag"] & magic.TRANSACTION_MASK
        found = np.zeros(self.count, np.bool_)
        for kind, name in magic.TRANSACTION_NAMES.items():
            if _decides(node, name):
                found |= kinds == kind
        return found, found

    def _hashes(self, node: Compare) -> Sides:
        """What a hash rules out: another hash is another text."""
        sure, possible = self._unknown()
        if node.field.name == "tags" and node.operator != "contains":
            codes = [properties.tags_code(str(value)) for value in node.values]
            possible = np.isin(self.batch["tags_code"], np.array(codes, np.int64))
        elif node.field.name == "keys" or (node.field.name == "unique_key" and node.operator != "contains"):
            possible = np.zeros(self.count, np.bool_)
            for value in node.values:
                wanted = MessageFilter(key=str(value))
                possible[wanted.rows(self.batch, self.table, self.base_offset)] = True
        return sure, possible


class Wanted(Protocol):
    """Chooses rows of a batch by its columns, and messages by their words (`MessageFilter`, `Expression`)."""

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]: ...

    def accepts(self, message: Message) -> bool: ...


def scan_log(
    log: LogView,
    wanted: Wanted,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    matches: Callable[[Message, int], bool] | None = None,
    with_bodies: bool = False,
    check_bodies: bool = False,
    max_body_size: int = MAX_BODY_SIZE,
) -> Iterator[tuple[int, Message]]:
    """Yield (physical offset, message) of the live records that are wanted, in the log's order.

    `start_offset:end_offset` chooses records by where they stand; whole files are read. `matches` is asked of
    a message and its offset instead of `wanted.accepts`; it sees the body if `with_bodies`, and faults of the
    body's CRC if `check_bodies`. Messages that are given have both. Raises StoreError when bytes cannot be
    read.
    """
    shown_size, done = max_body_size if with_bodies else 0, 0
    with phase("scanning the commit log", log.store.commitlog.size) as at:
        for number, file in enumerate(log.files):
            base_offset = file.start_offset or 0
            if base_offset + file.size > start_offset and (end_offset is None or base_offset < end_offset):
                scan, table = LiveScan(), QueueTable()
                options = replace(log.options(number), read_bodies=check_bodies)
                # A reader of its own: whoever takes the messages may make the log close files in between.
                with FileReader(file.path) as reader:
                    for batch in scan.batches(reader, base_offset, options, table):
                        at.at(done + scan.end_pos)
                        for row in wanted.rows(batch, table, base_offset).tolist():
                            offset = base_offset + int(batch["pos"][row])
                            if offset < start_offset or (end_offset is not None and offset >= end_offset):
                                continue
                            message = read_message(reader, batch, row, options.property_parser, shown_size)
                            if wanted.accepts(message) if matches is None else matches(message, offset):
                                whole = log.message_at(offset, max_body_size=max_body_size)
                                if isinstance(whole, Message):
                                    yield offset, whole
                log.walked(number, scan.end_pos)
            done += file.size
            at.at(done)


# Messages by an expression over their fields and bodies. The language: `query.content.expression`.


def find_by_expression(
    store: Store,
    expression: Expression | str,
    *,
    max_count: int | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
    view: StoreView | None = None,
) -> Iterator[Found]:
    """Yield the live messages that match, in the log's order; `max_count` ends the scan early.

    `start_offset:end_offset` are physical offsets. Bodies above `max_body_size` bytes count as missing.
    Raises ExpressionError for a mistake in the expression, StoreError when bytes cannot be read.
    """
    wanted = Expression(expression) if isinstance(expression, str) else expression
    if max_count == 0:
        return
    with view_of(store, view) as asked:
        found = scan_log(
            asked.log,
            wanted,
            start_offset=start_offset,
            end_offset=end_offset,
            matches=wanted.matches,
            with_bodies=wanted.needs_body,
            check_bodies=wanted.needs_faults,
            max_body_size=max_body_size,
        )
        for number, (offset, message) in enumerate(found, 1):
            yield asked.found(message, offset, "scan")
            if number == max_count:
                return
