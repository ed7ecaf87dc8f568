"""Made-up messages of all kinds, one after the other, as a producer, a client or the broker puts them.

A message of the mix may come to several puts: a transaction is a half message now and, some messages later,
a commit or rollback and the op message that says so; their offsets are those that the writer gave the half
message. Reference 2.9 to 2.13.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace

from rocketfsck.formats.magic import COMPRESSED, COMPRESSION_TYPE_SHIFT, MULTI_TAGS
from rocketfsck.formats.properties import KEYS, PGROUP, TAGS, TRAN_MSG, UNIQ_KEY, serialize_properties
from rocketfsck.formats.record import Host, InnerItem
from rocketfsck.scan.synth import draws
from rocketfsck.writer.manifest import PutRecord
from rocketfsck.writer.message import messages
from rocketfsck.writer.message.compose import takes_multi_dispatch
from rocketfsck.writer.message.messages import Kind, OutgoingMessage
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.synth import plan as synth_plan
from rocketfsck.writer.synth.plan import Basics, SynthesisPlan

INNER_TOPIC = "SynthBatch"
GROUPS = 3
LIGHT_QUEUES = 5
OPEN_TRANSACTIONS = 3
"""Half messages that wait while others come: then the oldest one is ended."""

MAX_ITEMS = 5
_MAX_ITEM_BODY = 512
_ZSTD = 2
_STORED_BLOCK = 65_535
_ZSTD_BLOCK = 1 << 17
_LONG_GROUP = "g" * 130
_IPV6 = bytes.fromhex("20010db8000000000000000000000000")

Story = Generator[OutgoingMessage, list[PutRecord], None]
"""Yields messages and is sent the records that each became."""


@dataclass(frozen=True, slots=True)
class _Half:
    message: OutgoingMessage
    physical_offset: int
    queue_offset: int


@dataclass(slots=True)
class Storyteller:
    """Tells the messages of a plan, in order."""

    plan: SynthesisPlan
    options: WriteOptions
    halves: deque[_Half] = field(default_factory=deque)

    def tell(self) -> Story:
        """All messages, without an end."""
        names, table = kinds_of(self.plan, self.options)
        clock = synth_plan.Clock(self.plan)
        number = 0
        while True:
            found = synth_plan.basics(self.plan, number, clock.at(number))
            yield from _TELLERS[names[table.choose(draws.draw(found.key, draws.DRAW_KIND))]](self, found)
            number += 1


def kinds_of(plan: SynthesisPlan, options: WriteOptions) -> tuple[tuple[str, ...], synth_plan.AliasTable]:
    """The kinds that the mix has shares of, and the table that chooses one of them; what the version or the
    settings do not have counts as normal."""
    missing = {kind for kind, there in _NEEDS.items() if not there(options)}
    shares: dict[str, int] = {}
    for kind in synth_plan.KIND_NAMES:
        share = plan.mix.shares.get(kind, 0)
        if share:
            name = "normal" if kind in missing else kind
            shares[name] = shares.get(name, 0) + share
    return tuple(shares), synth_plan.alias_table(tuple(shares.values()))


_NEEDS: Mapping[str, Callable[[WriteOptions], bool]] = {
    "batch": lambda options: options.dialect.legacy_batch,
    "inner": lambda options: INNER_TOPIC in options.batch_topics,
    "lmq": lambda options: options.multi_dispatch,
    "long": lambda options: options.dialect.v2_allowed,
    "ipv6": lambda options: options.dialect.ipv6_hosts,
}


def _normal_message(teller: Storyteller, found: Basics) -> OutgoingMessage:
    plan = teller.plan
    return OutgoingMessage(
        topic=found.topic,
        body=synth_plan.body(plan, found.key),
        store_timestamp=found.store_timestamp,
        queue_id=found.queue_id,
        properties=synth_plan.normal_properties(plan, found),
        born_timestamp=found.born_timestamp,
        born_host=found.producer.host,
        store_host=plan.store_host,
    )


def _normal(teller: Storyteller, found: Basics) -> Story:
    yield _normal_message(teller, found)


def _delay(teller: Storyteller, found: Basics) -> Story:
    levels = max(teller.options.delay_levels, default=0)
    message = _normal_message(teller, found)
    level = 1 + synth_plan.drawn_below(found.key, draws.DRAW_CHOICE, levels) if levels else 0
    yield replace(message, delay_level=level)


def _delivered(teller: Storyteller, found: Basics) -> Story:
    yield replace(_normal_message(teller, found), kind=Kind.DELIVERED)


def _group(found: Basics) -> int:
    return synth_plan.drawn_below(found.key, draws.DRAW_CHOICE, GROUPS)


def _retry(teller: Storyteller, found: Basics) -> Story:
    times = 1 + synth_plan.drawn_below(found.key, draws.DRAW_COUNT, 16)
    yield _again(teller, found, messages.RETRY_PREFIX, times)


def _dlq(teller: Storyteller, found: Basics) -> Story:
    yield _again(teller, found, "%DLQ%", 16)


def _again(teller: Storyteller, found: Basics, prefix: str, times: int) -> OutgoingMessage:
    """A message that was not consumed so many times, in the topic that a group has for these."""
    message = _normal_message(teller, found)
    origin = {"RETRY_TOPIC": found.topic, "ORIGIN_MESSAGE_ID": f"{found.key:032X}"}
    topic, properties = f"{prefix}group{_group(found)}", _with(message.properties, origin)
    return replace(message, topic=topic, queue_id=0, properties=properties, reconsume_times=times)


def _with(properties: messages.Properties, added: Mapping[str, str]) -> messages.Properties:
    assert isinstance(properties, Mapping)
    return {**properties, **added}


def _transaction(teller: Storyteller, found: Basics) -> Story:
    plain = _normal_message(teller, found)
    message = replace(plain, properties=_with(plain.properties, {TRAN_MSG: "true", PGROUP: "group"}))
    old = not teller.plan.dialect.half_topic
    records = yield replace(message, kind=Kind.PREPARED if old else Kind.HALF)
    placed = records[0]
    teller.halves.append(_Half(message, placed.physical_offset, placed.queue_offset))
    if len(teller.halves) <= OPEN_TRANSACTIONS:
        return
    half = teller.halves.popleft()
    committed = synth_plan.drawn_below(found.key, draws.DRAW_VARIANT, 4) > 0
    kind, offset = Kind.COMMIT if committed else Kind.ROLLBACK, half.physical_offset
    ended = replace(half.message, store_timestamp=found.store_timestamp, kind=kind)
    ended = replace(ended, prepared_transaction_offset=offset)
    if old:
        yield ended if committed else replace(ended, body=b"")
        return
    if committed:
        yield ended
    several = teller.plan.dialect.op_offsets_end_in_comma
    done = messages.op_message([half.queue_offset], found.store_timestamp, several=several)
    yield replace(done, store_host=teller.plan.store_host, born_host=teller.plan.store_host)


def _batch_items(teller: Storyteller, found: Basics) -> tuple[InnerItem, ...]:
    count = 1 + synth_plan.drawn_below(found.key, draws.DRAW_COUNT, MAX_ITEMS)
    return tuple(_item(teller, found, place) for place in range(count))


def _item(teller: Storyteller, found: Basics, place: int) -> InnerItem:
    key = draws.draw(found.key, draws.DRAW_FIRST_ITEM + place)
    own = replace(found, key=key)
    properties = synth_plan.normal_properties(teller.plan, own)
    properties[UNIQ_KEY] = f"{properties[UNIQ_KEY][:-4]}{key & 0xFFFF:04X}"
    body = synth_plan.body(teller.plan, key, _MAX_ITEM_BODY)
    return InnerItem(body, serialize_properties(properties, trailing_separator=True))


def _batch(teller: Storyteller, found: Basics) -> Story:
    items, message = _batch_items(teller, found), _normal_message(teller, found)
    yield replace(message, body=b"", properties={}, kind=Kind.LEGACY_BATCH, items=items)


def _inner(teller: Storyteller, found: Basics) -> Story:
    items, message = _batch_items(teller, found), _normal_message(teller, found)
    yield replace(message, topic=INNER_TOPIC, body=b"", kind=Kind.INNER_BATCH, items=items)


def _lmq(teller: Storyteller, found: Basics) -> Story:
    message = _normal_message(teller, found)
    if not takes_multi_dispatch(message.topic, teller.options):
        yield message
        return
    count = 1 + synth_plan.drawn_below(found.key, draws.DRAW_COUNT, LIGHT_QUEUES)
    first = synth_plan.drawn_below(found.key, draws.DRAW_CHOICE, LIGHT_QUEUES)
    names = tuple(f"{messages.LMQ_PREFIX}light{(first + place) % LIGHT_QUEUES}" for place in range(count))
    yield replace(message, multi_dispatch=names)


def _long(teller: Storyteller, found: Basics) -> Story:
    topic = f"{messages.RETRY_PREFIX}{_LONG_GROUP}{_group(found)}"
    yield replace(_normal_message(teller, found), topic=topic, queue_id=0, reconsume_times=1)


def _ipv6(teller: Storyteller, found: Basics) -> Story:
    message = _normal_message(teller, found)
    which = synth_plan.drawn_below(found.key, draws.DRAW_VARIANT, 3)
    born = Host(_IPV6[:-4] + found.producer.host.address, found.producer.host.port)
    store = Host(_IPV6[:-1] + b"\x01", teller.plan.store_host.port)
    if which != 0:
        message = replace(message, born_host=born)
    yield replace(message, store_host=store) if which != 1 else message


def _compressed(teller: Storyteller, found: Basics) -> Story:
    message = _normal_message(teller, found)
    typed = teller.plan.dialect.compression_types and synth_plan.drawn_below(found.key, draws.DRAW_VARIANT, 2)
    if typed:
        sys_flag = COMPRESSED | _ZSTD << COMPRESSION_TYPE_SHIFT
        yield replace(message, body=zstd_frame(message.body), sys_flag=sys_flag)
    else:
        yield replace(message, body=zlib_stream(message.body), sys_flag=COMPRESSED)


def zlib_stream(data: bytes) -> bytes:
    """A zlib stream of stored blocks: the same bytes whatever compressor a machine has."""
    pieces = [data[pos : pos + _STORED_BLOCK] for pos in range(0, len(data), _STORED_BLOCK)] or [b""]
    blocks = b"".join(
        bytes((number == len(pieces) - 1,))
        + len(piece).to_bytes(2, "little")
        + (len(piece) ^ 0xFFFF).to_bytes(2, "little")
        + piece
        for number, piece in enumerate(pieces)
    )
    return b"\x78\x01" + blocks + zlib.adler32(data).to_bytes(4, "big")


def zstd_frame(data: bytes) -> bytes:
    """A zstd frame of raw blocks (RFC 8878, 3.1.1) that states its content's size."""
    pieces = [data[pos : pos + _ZSTD_BLOCK] for pos in range(0, len(data), _ZSTD_BLOCK)] or [b""]
    blocks = b"".join(
        (len(piece) << 3 | (number == len(pieces) - 1)).to_bytes(3, "little") + piece
        for number, piece in enumerate(pieces)
    )
    # Frame_Content_Size of 8 bytes (flag 3), Single_Segment_flag.
    return b"\x28\xb5\x2f\xfd\xe0" + len(data).to_bytes(8, "little") + blocks


def _edge(teller: Storyteller, found: Basics) -> Story:
    message = _normal_message(teller, found)
    yield _EDGES[synth_plan.drawn_below(found.key, draws.DRAW_VARIANT, len(_EDGES))](message)


def _serialized(message: OutgoingMessage, *, end: bool) -> bytes:
    assert isinstance(message.properties, Mapping)
    return serialize_properties(message.properties, trailing_separator=end)


_EDGES: tuple[Callable[[OutgoingMessage], OutgoingMessage], ...] = (
    lambda message: replace(message, body=b""),
    lambda message: replace(message, properties={}),
    lambda message: replace(message, properties=b"", body=b""),
    lambda message: replace(message, properties=_with(message.properties, {KEYS: " a  b   a "})),
    lambda message: replace(message, properties=_with(message.properties, {KEYS: "订单-7 ключ 😀"})),
    lambda message: replace(message, properties=_with(message.properties, {KEYS: "polygenelubricants"})),
    lambda message: replace(message, properties=_with(message.properties, {TAGS: "标签", "属性": "值"})),
    lambda message: replace(message, properties=_with(message.properties, {"NOTE": "n" * 2000})),
    lambda message: replace(message, properties=_serialized(message, end=False)),
    lambda message: replace(message, properties=_serialized(message, end=True)),
    lambda message: replace(message, flag=-1, sys_flag=MULTI_TAGS),
    lambda message: replace(message, born_timestamp=1),
    lambda message: replace(message, body=b"\xda\xa3\x20\xa7" * 8),
)
"""Messages that are unusual and right: each is something that a producer can send."""

_TELLERS: Mapping[str, Callable[[Storyteller, Basics], Story]] = {
    "normal": _normal,
    "delay": _delay,
    "delivered": _delivered,
    "transaction": _transaction,
    "retry": _retry,
    "dlq": _dlq,
    "batch": _batch,
    "inner": _inner,
    "lmq": _lmq,
    "long": _long,
    "ipv6": _ipv6,
    "compressed": _compressed,
    "edge": _edge,
}
assert set(_TELLERS) == set(synth_plan.KIND_NAMES)
