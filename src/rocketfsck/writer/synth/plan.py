"""What a seed and a mix come to before the first message: names, hosts, tables and the rules for a message.

Both ways of making messages go by this: `stories` (every kind, through the writer) and `bulk` (plain ones,
compiled). Reference 2.1, 2.5, 3.2, 7.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.properties import (
    CLUSTER,
    KEYS,
    TAGS,
    UNIQ_KEY,
    WAIT,
    java_hash_map_order,
)
from rocketfsck.formats.record import BLANK_HEADER_SIZE, MIN_RECORD_SIZE, Host
from rocketfsck.scan.synth.draws import (
    DRAW_BODY,
    DRAW_BORN,
    DRAW_PRODUCER,
    DRAW_QUEUE,
    DRAW_TAG,
    DRAW_TOPIC,
    GOLDEN,
    TEXT,
    below,
    draw,
    drawn_body_size,
    drawn_content,
    drawn_word,
    drawn_word_count,
    mix,
    month_start,
)
from rocketfsck.writer.message.messages import DEFAULT_STORE_HOST
from rocketfsck.writer.options import PROPERTY_ALLOWANCE, WriteOptions
from rocketfsck.writer.synth.mix import (
    CONTENTS,
    AliasTable,
    Mix,
    alias_table,
    message_key,
    step_of,
    zipf_weights,
)

CLUSTER_NAME = "DefaultCluster"
WORD_PREFIX = "key-"
TAG_PREFIX = "Tag"
TOPIC_PREFIX = "Topic"
BORN_DELAY_LIMIT = 50
"""A message is born less than so many ms before it is stored."""

MAX_WORD_SIZE = len(WORD_PREFIX) + 10
UNIQUE_KEY_SIZE = 32
FRAGMENT_SIZE = 8
_FRAGMENT_WORDS = (
    "order", "status", "amount", "paid", "item", "price", "user", "true", "false", "null", "time", "count",
    "total", "name", "city", "code", "type", "id", "event", "stock", "trade", "ship", "done", "retry", "open",
    "close", "buyer", "seller", "region", "cents", "EUR", "CNY",
)  # fmt: skip
FRAGMENTS = b"".join(
    f'"{word[:6]}"'.encode().ljust(FRAGMENT_SIZE, end) for end in (b",", b":") for word in _FRAGMENT_WORDS
)
"""64 pieces of 8 bytes that text is made of."""


@dataclass(frozen=True, slots=True)
class Producer:
    """A client: where messages are born, and the first 20 digits of its uniqIDs."""

    host: Host
    unique_prefix: str


@dataclass(frozen=True, slots=True)
class SynthesisPlan:
    """A seed, a mix, and what follows from them and the broker's version."""

    seed: int
    mix: Mix
    start_time: int
    dialect: Dialect
    topics: tuple[str, ...]
    topic_table: AliasTable
    producers: tuple[Producer, ...]
    store_host: Host
    property_order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Basics:
    """What every message has, whatever its kind."""

    number: int
    key: int
    topic: str
    queue_id: int
    producer: Producer
    born_timestamp: int
    store_timestamp: int


def make_plan(seed: int, mix: Mix, options: WriteOptions, start_time: int) -> SynthesisPlan:
    """The plan. UsageError where the largest message would not fit in a commit log file or the settings."""
    dialect = options.dialect
    if not -(1 << 63) <= seed < 1 << 64:
        raise UsageError(f"seed {seed} has more than 64 bits")
    names = [UNIQ_KEY, KEYS, TAGS, WAIT]
    names += [CLUSTER] if dialect.broker_writes_properties else []
    order = java_hash_map_order(names, options.property_map_capacity or dialect.property_map_capacity)
    plan = SynthesisPlan(
        seed=seed,
        mix=mix,
        start_time=start_time,
        dialect=dialect,
        topics=tuple(f"{TOPIC_PREFIX}{number}" for number in range(mix.topics)),
        topic_table=alias_table(zipf_weights(mix.topics, mix.zipf)),
        producers=tuple(_producer(number, dialect) for number in range(mix.producers)),
        store_host=Host(bytes((10, 20, 30, 40)), DEFAULT_STORE_HOST.port),
        property_order=tuple(order),
    )
    _check_sizes(plan, options)
    return plan


def _producer(number: int, dialect: Dialect) -> Producer:
    address = bytes((10, 1 + (number >> 16), number >> 8 & 0xFF, number & 0xFF))
    pid = 1000 + number if dialect.unique_key_has_low_pid else 0
    loader = mix(number) & 0xFFFFFFFF
    prefix = f"{address.hex()}{pid & 0xFFFF:04x}{loader:08x}".upper()
    return Producer(Host(address, 40_000 + number % 20_000), prefix)


def _check_sizes(plan: SynthesisPlan, options: WriteOptions) -> None:
    largest, body = largest_record(plan), plan.mix.body.high
    limit = options.max_message_size
    if plan.dialect.record_limit_spares_properties:
        if body > limit:
            raise UsageError(f"bodies of {body:,} bytes: maxMessageSize is {limit:,}")
        limit += PROPERTY_ALLOWANCE
    limit = min(limit, options.geometry.commitlog_file_size - BLANK_HEADER_SIZE)
    if largest > limit:
        raise UsageError(f"records of {largest:,} bytes: the limit with these settings is {limit:,}")


def largest_record(plan: SynthesisPlan) -> int:
    """Bytes of the largest normal message's record."""
    mix = plan.mix
    properties = (
        len(UNIQ_KEY) + UNIQUE_KEY_SIZE
        + len(KEYS) + mix.keys[1] * (MAX_WORD_SIZE + 1)
        + len(TAGS) + len(TAG_PREFIX) + 4
        + len(WAIT) + len("true") + len(CLUSTER) + len(CLUSTER_NAME) + 2 * 5
    )  # fmt: skip
    return MIN_RECORD_SIZE + mix.body.high + len(plan.topics[-1]) + properties


class Clock:
    """The broker's clock: `rate` messages a second from the start time, and the mix's steps."""

    def __init__(self, plan: SynthesisPlan) -> None:
        self._plan = plan
        self._stepped = 0

    def at(self, number: int) -> int:
        """The storeTimestamp of message `number`; asked for in order, each once."""
        mix, (every, most) = self._plan.mix, self._plan.mix.steps
        if every and number and number % every == 0:
            self._stepped += step_of(self._plan.seed, number, most)
        return max(self._plan.start_time + number * 1000 // mix.rate + self._stepped, 0)


def basics(plan: SynthesisPlan, number: int, store_timestamp: int) -> Basics:
    """Message `number`'s topic, queue, producer and times."""
    key = message_key(plan.seed, number)
    return Basics(
        number=number,
        key=key,
        topic=plan.topics[plan.topic_table.choose(draw(key, DRAW_TOPIC))],
        queue_id=below(draw(key, DRAW_QUEUE), plan.mix.queues),
        producer=plan.producers[below(draw(key, DRAW_PRODUCER), plan.mix.producers)],
        born_timestamp=max(store_timestamp - below(draw(key, DRAW_BORN), BORN_DELAY_LIMIT), 0),
        store_timestamp=store_timestamp,
    )


def body_size(plan: SynthesisPlan, key: int) -> int:
    """Bytes of the body of the message of this key."""
    sizes = plan.mix.body
    return drawn_body_size(key, sizes.low, sizes.high, sizes.octaves)


def is_text(plan: SynthesisPlan, key: int) -> bool:
    """Whether the body is text rather than random bytes."""
    return drawn_content(key, CONTENTS.index(plan.mix.content)) == TEXT


def body_bytes(key: int, size: int, *, text: bool) -> bytes:
    """The body of the message of this key.

    Random: 8 bytes, little-endian, of each draw w = 0, 1 … with `draw(key, DRAW_BODY)` as the key. Text: each
    byte of these draws, lowest first, names one of FRAGMENTS (its lowest 6 bits).
    """

    words = -(-size // (64 if text else 8))
    numbers = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    data = mix(numbers + np.uint64(draw(key, DRAW_BODY))).astype("<u8")
    if text:
        pieces = np.frombuffer(FRAGMENTS, "S8")
        data = pieces[data.view(np.uint8) & 63]

    whole: bytes = data.tobytes()
    return whole[:size]


def key_words(plan: SynthesisPlan, key: int) -> list[str]:
    """The words of KEYS."""
    by_rank = plan.mix.skew == "zipf"
    count = drawn_word_count(key, *plan.mix.keys)
    return [f"{WORD_PREFIX}{drawn_word(key, place, plan.mix.words, by_rank)}" for place in range(count)]


def tag(plan: SynthesisPlan, key: int) -> str | None:
    """TAGS, None for a message without."""
    chosen = below(draw(key, DRAW_TAG), plan.mix.tags + 1)
    return f"{TAG_PREFIX}{chosen}" if chosen else None


def unique_key(found: Basics) -> str:
    """The uniqID that the producer gave: its prefix, ms since the month began, a counter (reference 7.2)."""
    span = found.born_timestamp - month_start(found.born_timestamp)
    return f"{found.producer.unique_prefix}{span:08X}{found.number & 0xFFFF:04X}"


def normal_properties(plan: SynthesisPlan, found: Basics) -> dict[str, str]:
    """The properties of a plain message."""
    values: dict[str, str] = {UNIQ_KEY: unique_key(found), WAIT: "true"}
    words, chosen = key_words(plan, found.key), tag(plan, found.key)
    if words:
        values[KEYS] = " ".join(words)
    if chosen is not None:
        values[TAGS] = chosen
    if plan.dialect.broker_writes_properties:
        values[CLUSTER] = CLUSTER_NAME
    return {name: values[name] for name in plan.property_order if name in values}
