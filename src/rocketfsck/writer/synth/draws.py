"""Keys of messages and weighted choices: what plans add to the numbers that `scan.synth.draws` defines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
