"""What a seed and a mix come to before the first message: names, hosts, tables and the rules for a message.

Both ways of making messages go by this: `stories` (every kind, through the writer) and `bulk` (plain ones,
compiled). Reference 2.1, 2.5, 3.2, 7.2.

What made-up messages are like: a mix, from a preset's name and NAME=VALUE pairs.

topics=8        topics, of which the one of rank r is chosen with weight 1 / r**zipf
zipf=1.0        0.0 (all alike) to 3.0, in tenths
queues=4        queues of a topic
body=1024       bytes of a body; LOW:HIGH evenly, log:LOW:HIGH with as many small as large ones
content=random  bytes of bodies: random, text (compresses well), or both
keys=2          words in KEYS, N or LOW:HIGH; UNIQ_KEY is always there, too
words=1000000   different words
skew=uniform    how words are chosen: uniform, or zipf (as 1 / rank)
tags=4          different TAGS, and as many without; 0: none
producers=4     hosts that messages are born on
rate=10000      messages a second of the broker's clock
steps=0:0       EVERY:MOST, every so many messages the clock steps by up to MOST ms, back or forth
delay=5 …       share of a kind of message, relative to normal=100 (KIND_NAMES)

Keys of messages and weighted choices: what plans add to the numbers that `scan.synth.draws` defines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MIN_RECORD_SIZE
from rocketfsck.formats.record import Host
from rocketfsck.scan.synth import draws
from rocketfsck.writer.message.messages import DEFAULT_STORE_HOST
from rocketfsck.writer.options import PROPERTY_ALLOWANCE, WriteOptions

MAX_BELOW = 1 << 32
STEP_STREAM = 0x5354455053  # seeds the clock's steps

WEIGHT_BITS = 40
ZIPF_TENTHS_LIMIT = 30


def message_key(seed: int, number: int) -> int:
    """The key of message `number`; `seed` any integer."""
    return draws.draw(draws.mix(seed), number)


def drawn_below(key: int, what: int, limit: int) -> int:
    """The draw `what` of a message, as a number below a limit."""
    return draws.below(draws.draw(key, what), limit)


def step_of(seed: int, number: int, most: int) -> int:
    """The clock's step before message `number`, in -most .. most ms."""
    return draws.drawn_step(draws.mix(seed ^ STEP_STREAM), number, most)


def integer_root(value: int, degree: int) -> int:
    """The largest integer whose power `degree` is at most `value`."""
    if value < 2:
        return value
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def zipf_weights(count: int, tenths: int) -> list[int]:
    """Weights 2**40 / rank**(tenths / 10) of ranks 1 .. count, exact and rounded down; at least 1."""
    if tenths % 10 == 0:
        return [max((1 << WEIGHT_BITS) // rank ** (tenths // 10), 1) for rank in range(1, count + 1)]
    whole = 1 << WEIGHT_BITS * 10
    return [max(integer_root(whole // rank**tenths, 10), 1) for rank in range(1, count + 1)]


@dataclass(frozen=True, slots=True)
class AliasTable:
    """A weighted choice in one draw (Vose's alias method): a column by the upper half of the draw, itself
    if the lower half is below its threshold, else its alias."""

    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    def choose(self, value: int) -> int:
        return draws.choose(value, self.thresholds, self.aliases)


def alias_table(weights: Sequence[int]) -> AliasTable:
    """The table for positive weights; thresholds are 32-bit fractions, rounded down."""
    count, total = len(weights), sum(weights)
    scaled = [weight * count for weight in weights]
    thresholds, aliases = [MAX_BELOW] * count, list(range(count))
    small = [index for index in range(count) if scaled[index] < total]
    large = [index for index in range(count) if scaled[index] >= total]
    while small and large:
        less, more = small.pop(), large[-1]
        thresholds[less] = (scaled[less] << 32) // total
        aliases[less] = more
        scaled[more] -= total - scaled[less]
        if scaled[more] < total:
            small.append(large.pop())
    return AliasTable(tuple(thresholds), tuple(aliases))


KIND_NAMES: Mapping[str, str] = {
    "normal": "a plain message with keys",
    "delay": "delayed: goes to SCHEDULE_TOPIC_XXXX",
    "delivered": "delivered after a delay",
    "transaction": "half message, then commit or rollback and op message; prepared records up to 4.2.0",
    "retry": "goes to %RETRY%group",
    "dlq": "goes to %DLQ%group",
    "batch": "legacy batch, one record an item",
    "inner": "inner batch in a batch topic",
    "lmq": "dispatched to light queues (LMQ) as well",
    "long": "topic of more than 127 bytes (message V2)",
    "ipv6": "IPv6 hosts",
    "compressed": "a body compressed with zlib or zstd",
    "edge": "odd properties, keys, flags, sizes",
}
"""Kinds that a version does not have become normal messages."""

SKEWS = ("uniform", "zipf")
CONTENTS = ("random", "text", "both")
MAX_KEYS = 64
MAX_TOPICS = 10_000
MAX_QUEUES = 1 << 20


@dataclass(frozen=True, slots=True)
class BodySizes:
    """Sizes of bodies in bytes, `low` to `high`; `octaves`: as many small as large ones."""

    low: int
    high: int
    octaves: bool = False


@dataclass(frozen=True, slots=True)
class Mix:
    """A mix (see the module); `zipf` in tenths, `key_words` as (least, most), `shares` by kind."""

    topics: int = 8
    zipf: int = 10
    queues: int = 4
    body: BodySizes = BodySizes(1024, 1024)
    content: str = "random"
    keys: tuple[int, int] = (2, 2)
    words: int = 1_000_000
    skew: str = "uniform"
    tags: int = 4
    producers: int = 4
    rate: int = 10_000
    steps: tuple[int, int] = (0, 0)
    shares: Mapping[str, int] = field(default_factory=lambda: {"normal": 100})

    @property
    def is_plain(self) -> bool:
        """Whether there are normal messages only."""
        return all(share == 0 for kind, share in self.shares.items() if kind != "normal")


_SMALL = {"body": BodySizes(16, 4096, octaves=True), "content": "both", "keys": (0, 3), "skew": "zipf"}
_SOME = {
    "normal": 100, "delay": 5, "delivered": 3, "transaction": 6, "retry": 4, "dlq": 1, "batch": 4,
    "compressed": 3,
}  # fmt: skip
PRESETS: Mapping[str, Mix] = {
    "plain": Mix(),
    "mixed": Mix(**_SMALL, shares=_SOME),  # type: ignore[arg-type]
    "everything": Mix(
        **_SMALL,  # type: ignore[arg-type]
        steps=(500, 2000),
        shares=_SOME | {"inner": 6, "lmq": 6, "long": 2, "ipv6": 5, "edge": 6},
    ),
}


def parse_mix(text: str) -> Mix:
    """The mix that `PRESET,NAME=VALUE,…` says; UsageError, with the piece, for what it does not know."""
    mix = PRESETS["plain"]
    for number, piece in enumerate(piece.strip() for piece in text.split(",")):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not equals:
            if number or name not in PRESETS:
                raise UsageError(f"{piece!r} is neither {', '.join(PRESETS)} nor NAME=VALUE")
            mix = PRESETS[name]
            continue
        if name in KIND_NAMES:
            mix = replace(mix, shares={**mix.shares, name: _number(name, value, 0, 1 << 20)})
        elif name in _PARSERS:
            mix = replace(mix, **{name: _PARSERS[name](name, value)})
        else:
            known = ", ".join((*_PARSERS, *KIND_NAMES))
            raise UsageError(f"{name!r} is not one of {known}")
    if mix.topics * mix.queues > MAX_QUEUES:
        raise UsageError(
            f"{mix.topics} topics of {mix.queues} queues: the limit is {MAX_QUEUES:,} queues in all"
        )
    if not any(mix.shares.values()):
        raise UsageError("a mix without any kind of message")
    return mix


def _number(name: str, value: str, least: int, most: int) -> int:
    digits = value.removesuffix("KiB").removesuffix("MiB")
    scale = {"KiB": 1 << 10, "MiB": 1 << 20}.get(value[len(digits) :], 1)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
        raise UsageError(f"{name}={value}: not a number")
    number = int(digits) * scale
    if not least <= number <= most:
        raise UsageError(f"{name}={value}: needs {least} to {most}")
    return number


def _range(least: int, most: int) -> Callable[[str, str], int]:
    return lambda name, value: _number(name, value, least, most)


def _choice(choices: tuple[str, ...]) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        if value not in choices:
            raise UsageError(f"{name}={value}: needs {' or '.join(choices)}")
        return value

    return parse


def _zipf(name: str, value: str) -> int:
    whole, _, tenth = value.partition(".")
    digits = whole + (tenth or "0")
    if not (digits.isascii() and digits.isdigit()) or len(digits) != 2 or int(digits) > ZIPF_TENTHS_LIMIT:
        raise UsageError(f"{name}={value}: needs 0.0 to 3.0, with one decimal")
    return int(digits)


def _bounds(name: str, value: str, least: int, most: int) -> tuple[int, int]:
    low, colon, high = value.partition(":")
    first = _number(name, low, least, most)
    last = _number(name, high, least, most) if colon else first
    if first > last:
        raise UsageError(f"{name}={value}: {first} is more than {last}")
    return first, last


def _body(name: str, value: str) -> BodySizes:
    octaves = value.startswith("log:")
    low, high = _bounds(name, value.removeprefix("log:"), int(octaves), 1 << 30)
    return BodySizes(low, high, octaves)


def _steps(name: str, value: str) -> tuple[int, int]:
    every, colon, most = value.partition(":")
    if not colon:
        raise UsageError(f"{name}={value}: needs EVERY:MOST")
    return _number(name, every, 0, 1 << 30), _number(name, most, 0, 1 << 30)


_PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "topics": _range(1, MAX_TOPICS),
    "zipf": _zipf,
    "queues": _range(1, MAX_QUEUES),
    "body": _body,
    "content": _choice(CONTENTS),
    "keys": lambda name, value: _bounds(name, value, 0, MAX_KEYS),
    "words": _range(1, MAX_BELOW),
    "skew": _choice(SKEWS),
    "tags": _range(0, 1000),
    "producers": _range(1, 60_000),
    "rate": _range(1, 10_000_000),
    "steps": _steps,
}
assert set(_PARSERS) | {"shares"} == {item.name for item in fields(Mix)}


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
    names = [props.UNIQ_KEY, props.KEYS, props.TAGS, props.WAIT]
    names += [props.CLUSTER] if dialect.broker_writes_properties else []
    order = props.java_hash_map_order(names, options.property_map_capacity or dialect.property_map_capacity)
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
    loader = draws.mix(number) & 0xFFFFFFFF
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
        len(props.UNIQ_KEY) + UNIQUE_KEY_SIZE
        + len(props.KEYS) + mix.keys[1] * (MAX_WORD_SIZE + 1)
        + len(props.TAGS) + len(TAG_PREFIX) + 4
        + len(props.WAIT) + len("true") + len(props.CLUSTER) + len(CLUSTER_NAME) + 2 * 5
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
        topic=plan.topics[plan.topic_table.choose(draws.draw(key, draws.DRAW_TOPIC))],
        queue_id=drawn_below(key, draws.DRAW_QUEUE, plan.mix.queues),
        producer=plan.producers[drawn_below(key, draws.DRAW_PRODUCER, plan.mix.producers)],
        born_timestamp=max(store_timestamp - drawn_below(key, draws.DRAW_BORN, BORN_DELAY_LIMIT), 0),
        store_timestamp=store_timestamp,
    )


def body(plan: SynthesisPlan, key: int, most: int = MAX_BELOW) -> bytes:
    """The body of the message of this key, of so many bytes at most."""
    sizes = plan.mix.body
    size = draws.drawn_body_size(key, sizes.low, sizes.high, sizes.octaves)
    is_text = draws.drawn_content(key, CONTENTS.index(plan.mix.content)) == draws.TEXT
    return body_bytes(key, min(size, most), text=is_text)


def body_bytes(key: int, size: int, *, text: bool) -> bytes:
    """The body of the message of this key.

    Random: 8 bytes, little-endian, of each draw w = 0, 1 … with `draw(key, DRAW_BODY)` as the key. Text: each
    byte of these draws, lowest first, names one of FRAGMENTS (its lowest 6 bits).
    """

    words = -(-size // (64 if text else 8))
    numbers = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(draws.GOLDEN)
    data = draws.mix(numbers + np.uint64(draws.draw(key, draws.DRAW_BODY))).astype("<u8")
    if text:
        pieces = np.frombuffer(FRAGMENTS, "S8")
        data = pieces[data.view(np.uint8) & 63]

    whole: bytes = data.tobytes()
    return whole[:size]


def key_words(plan: SynthesisPlan, key: int) -> list[str]:
    """The words of KEYS."""
    by_rank = plan.mix.skew == "zipf"
    count = draws.drawn_word_count(key, *plan.mix.keys)
    return [f"{WORD_PREFIX}{draws.drawn_word(key, place, plan.mix.words, by_rank)}" for place in range(count)]


def tag(plan: SynthesisPlan, key: int) -> str | None:
    """TAGS, None for a message without."""
    chosen = drawn_below(key, draws.DRAW_TAG, plan.mix.tags + 1)
    return f"{TAG_PREFIX}{chosen}" if chosen else None


def unique_key(found: Basics) -> str:
    """The uniqID that the producer gave: its prefix, ms since the month began, a counter (reference 7.2)."""
    span = found.born_timestamp - draws.month_start(found.born_timestamp)
    return f"{found.producer.unique_prefix}{span:08X}{found.number & 0xFFFF:04X}"


def normal_properties(plan: SynthesisPlan, found: Basics) -> dict[str, str]:
    """The properties of a plain message."""
    values: dict[str, str] = {props.UNIQ_KEY: unique_key(found), props.WAIT: "true"}
    words, chosen = key_words(plan, found.key), tag(plan, found.key)
    if words:
        values[props.KEYS] = " ".join(words)
    if chosen is not None:
        values[props.TAGS] = chosen
    if plan.dialect.broker_writes_properties:
        values[props.CLUSTER] = CLUSTER_NAME
    return {name: values[name] for name in plan.property_order if name in values}
