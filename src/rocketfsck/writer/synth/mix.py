"""What made-up messages are like: a mix, from a preset's name and NAME=VALUE pairs.

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
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.scan.synth.draws import choose, draw, drawn_step, mix

MAX_BELOW = 1 << 32
STEP_STREAM = 0x5354455053  # seeds the clock's steps

WEIGHT_BITS = 40
ZIPF_TENTHS_LIMIT = 30


def message_key(seed: int, number: int) -> int:
    """The key of message `number`; `seed` any integer."""
    return draw(mix(seed), number)


def step_of(seed: int, number: int, most: int) -> int:
    """The clock's step before message `number`, in -most .. most ms."""
    return drawn_step(mix(seed ^ STEP_STREAM), number, most)


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
        return choose(value, self.thresholds, self.aliases)


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

    def document(self) -> dict[str, Any]:
        """The mix as JSON."""
        return asdict(self)


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
