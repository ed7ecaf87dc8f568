"""The numbers that synthesis is made of: a counter-based generator in 64-bit integers, nothing else.

    mix(z)          SplitMix64's finaliser: z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27;
                    z *= 0x94D049BB133111EB; z ^= z >> 31                             (modulo 2**64)
    key(seed, n)    mix(mix(seed) + (n + 1) * GOLDEN)       of message n, from 0
    draw(key, d)    mix(key + (d + 1) * GOLDEN)             number d of that message
    below(u, n)     (u >> 32) * n >> 32                     0 .. n-1, n up to 2**32

So every message can be made without those before it, in any language, on any number of cores. `scan`'s
kernels for synthesis state the same rules once more; a test holds the two to the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
MAX_BELOW = 1 << 32

# What each number of a message is drawn for.
(
    DRAW_KIND,
    DRAW_TOPIC,
    DRAW_QUEUE,
    DRAW_SIZE,
    DRAW_SIZE_IN_OCTAVE,
    DRAW_BODY,
    DRAW_CONTENT,
    DRAW_TAG,
    DRAW_KEY_COUNT,
    DRAW_PRODUCER,
    DRAW_BORN,
    DRAW_VARIANT,
    DRAW_CHOICE,
    DRAW_COUNT,
) = range(14)
DRAW_FIRST_WORD = 16
DRAW_FIRST_ITEM = 256
STEP_STREAM = 0x5354455053  # seeds the clock's steps

WEIGHT_BITS = 40
ZIPF_TENTHS_LIMIT = 30


def mix(value: int) -> int:
    """SplitMix64's finaliser."""
    value &= MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def message_key(seed: int, number: int) -> int:
    """The key of message `number`; `seed` any integer."""
    return mix(mix(seed) + (number + 1) * GOLDEN)


def draw(key: int, number: int) -> int:
    """Number `number` of the message of this key: 64 bits."""
    return mix(key + (number + 1) * GOLDEN)


def below(value: int, limit: int) -> int:
    """A number of 0 .. limit-1 from the upper half of a draw."""
    return (value >> 32) * limit >> 32


def in_octave(value: int, second: int, low: int, high: int) -> int:
    """A number of low .. high (low at least 1): an octave [low * 2**k, low * 2**(k+1)) evenly, the last one
    up to `high`, then one in it evenly. So small numbers are about as frequent as large ones, as 1 / n."""
    count = max((high // low).bit_length() - 1, 1)
    octave = below(value, count)
    start = low << octave
    end = high + 1 if octave == count - 1 else 2 * start
    return start + below(second, end - start)


def step_of(seed: int, number: int, most: int) -> int:
    """The clock's step before message `number`, in -most .. most ms."""
    return below(draw(mix(seed ^ STEP_STREAM), number), 2 * most + 1) - most


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
        column = below(value, len(self.thresholds))
        return column if value & 0xFFFFFFFF < self.thresholds[column] else self.aliases[column]


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
