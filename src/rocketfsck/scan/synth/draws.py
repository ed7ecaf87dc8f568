"""What a synthetic message is: every number of it, drawn by a counter-based generator in 64-bit integers.

    mix(z)          SplitMix64's finaliser: z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27;
                    z *= 0x94D049BB133111EB; z ^= z >> 31                             (modulo 2**64)
    key(seed, n)    mix(mix(seed) + (n + 1) * GOLDEN)       of message n, from 0
    draw(key, d)    mix(key + (d + 1) * GOLDEN)             number d of that message
    below(u, n)     (u >> 32) * n >> 32                     0 .. n-1, n up to 2**32

So every message can be made without those before it, in any language, on any number of cores. These functions
are written in the part of Python that Numba compiles too: the writer's `stories` run them as they are,
`scan.synth.compiled` compiled. Compiled integers have 64 bits and maybe a sign, so a mask follows every
shift.

What the kernel that writes made-up messages is given of a plan, and what it tells of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketfsck.formats.dtypes import Longs


class Parameters(NamedTuple):
    """The numbers of a plan. Sizes in bytes, times in ms."""

    seed: int  # mixed
    step_seed: int
    start_time: int
    rate: int
    step_every: int
    step_most: int
    queue_count: int  # of a topic
    body_low: int
    body_high: int
    body_octaves: int
    content: int  # RANDOM, TEXT or BOTH
    key_low: int
    key_high: int
    word_count: int
    words_by_rank: int
    tag_count: int
    index_tags: int  # 1: tags have an index entry, too
    producer_count: int
    born_limit: int
    store_host: int  # address and port
    largest: int  # of the records
    trailing: int  # 1: 0x02 after the last property
    file_size: int
    end_number: int  # no message from this number on
    end_offset: int  # none once a record ends at this physical offset or beyond it
    external: int  # address of the function for CRCs
    capacity: int  # of the buffer


class Words(NamedTuple):
    """The tables and texts of a plan.

    `…_place` are the bounds of the pieces in the bytes of that name: of topics, of tags, and of the
    properties' names with 0x01 behind (whole pairs from FIXED_FIRST on; the last piece is the prefix of
    words). `…_bytes`, `prefixes` (the first 20 digits of each producer's uniqIDs) and `fragments` are
    addresses. `producers` are address and port in one number, `order` is that of the properties.
    """

    thresholds: Longs
    aliases: Longs
    topic_place: Longs
    topic_bytes: int
    topic_hash: Longs
    producers: Longs
    prefixes: int
    tag_place: Longs
    tag_bytes: int
    tag_codes: Longs
    order: Longs
    name_place: Longs
    name_bytes: int
    fragments: int


class Columns(NamedTuple):
    """What is said about the records in the buffer, a row each, and about their keys, a row each."""

    queue: Longs
    size: Longs
    offset: Longs
    time: Longs
    tags: Longs
    key_hash: Longs
    key_record: Longs


GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
LOW_HALF = (1 << 32) - 1
DAY = 86_400_000

# What each number of a message is drawn for.
DRAW_KIND, DRAW_TOPIC, DRAW_QUEUE, DRAW_SIZE, DRAW_SIZE_IN_OCTAVE, DRAW_BODY, DRAW_CONTENT = range(7)
DRAW_TAG, DRAW_KEY_COUNT, DRAW_PRODUCER, DRAW_BORN, DRAW_VARIANT, DRAW_CHOICE, DRAW_COUNT = range(7, 14)
DRAW_FIRST_WORD = 16
DRAW_FIRST_ITEM = 256

RANDOM, TEXT, BOTH = range(3)
"""What bodies consist of."""


def mix(value: Any) -> Any:
    """SplitMix64's finaliser, of a number or of an array of unsigned ones."""
    value = value & MASK
    value = (value ^ (value >> 30 & MASK >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27 & MASK >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31 & MASK >> 31)


def draw(key: int, number: int) -> int:
    """Number `number` of the message of this key: 64 bits."""
    value: int = mix(key + (number + 1) * GOLDEN)
    return value


def below(value: int, limit: int) -> int:
    """A number of 0 .. limit-1 from the upper half of a draw."""
    return (value >> 32 & LOW_HALF) * limit >> 32 & LOW_HALF


def choose(value: int, thresholds: Any, aliases: Any) -> int:
    """A weighted choice in one draw (Vose's alias method): a column by the upper half of the draw, itself if
    the lower half is below its threshold, else its alias."""
    column = below(value, len(thresholds))
    chosen: int = column if value & LOW_HALF < thresholds[column] else aliases[column]
    return chosen


def bit_length(value: int) -> int:
    """The bits of a number that is not negative."""
    count = 0
    while value > 0:
        value >>= 1
        count += 1
    return count


def in_octave(value: int, second: int, low: int, high: int) -> int:
    """A number of low .. high (low at least 1): an octave [low * 2**k, low * 2**(k+1)) evenly, the last one
    up to `high`, then one in it evenly. So small numbers are about as frequent as large ones, as 1 / n."""
    count = max(bit_length(high // low) - 1, 1)
    octave = below(value, count)
    start = low << octave
    end = high + 1 if octave == count - 1 else 2 * start
    return start + below(second, end - start)


def drawn_step(stream: int, number: int, most: int) -> int:
    """The clock's step before message `number`, in -most .. most ms, from the key of all steps."""
    return below(draw(stream, number), 2 * most + 1) - most


def drawn_body_size(key: int, low: int, high: int, octaves: int) -> int:
    """Bytes of the body: evenly, or with as many small as large ones."""
    if octaves != 0:
        return in_octave(draw(key, DRAW_SIZE), draw(key, DRAW_SIZE_IN_OCTAVE), low, high)
    return low + below(draw(key, DRAW_SIZE), high - low + 1)


def drawn_content(key: int, content: int) -> int:
    """RANDOM or TEXT."""
    return below(draw(key, DRAW_CONTENT), 2) if content == BOTH else content


def drawn_word_count(key: int, low: int, high: int) -> int:
    """How many words KEYS has."""
    return low + below(draw(key, DRAW_KEY_COUNT), high - low + 1)


def drawn_word(key: int, place: int, words: int, by_rank: int) -> int:
    """The number of the word at a place of KEYS: evenly, or as 1 / rank."""
    value = draw(key, DRAW_FIRST_WORD + place)
    if by_rank != 0:
        return in_octave(value, mix(value), 1, words) - 1
    return below(value, words)


def month_start(timestamp: int) -> int:
    """Midnight UTC of the first day of the month that a time (ms, not negative) lies in."""
    days = timestamp // DAY
    day_of_era = (days + 719_468) % 146_097  # since 0000-03-01
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    return (days - (day_of_year - (153 * month + 2) // 5)) * DAY
