"""Keyed permutations: of the texts that a name may become, and of 32-bit hashes.

A Feistel network of two unequal halves permutes the numbers below any product. Without the secret, what a
number became tells nothing of it but whether two of them are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs

_TURNS = 8
_SPARE = 16
"""Bytes more than a number has, so that the remainder is as good as evenly spread."""
_HALF = 1 << 16
_WORD = 1 << 32


def permuted_digits(secret: bytes, digits: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The image of `digits` (each below its size) under a keyed permutation of all such rows of digits.

    Every row of these sizes is the image of exactly one row.
    """
    if not sizes:
        return []
    tweak = hashlib.sha256(secret + repr(list(sizes)).encode()).digest()
    if len(sizes) == 1:
        order = np.random.default_rng(int.from_bytes(tweak)).permutation(sizes[0])
        return [int(order[digits[0]])]
    half = len(sizes) // 2
    low, high = prod(sizes[:half]), prod(sizes[half:])
    left, right = _number(digits[:half], sizes[:half]), _number(digits[half:], sizes[half:])
    for turn in range(_TURNS):
        left = (left + _draw(tweak, 2 * turn, right, low)) % low
        right = (right + _draw(tweak, 2 * turn + 1, left, high)) % high
    return _digits(left, sizes[:half]) + _digits(right, sizes[half:])


def _draw(tweak: bytes, turn: int, value: int, size: int) -> int:
    data = tweak + bytes([turn]) + value.to_bytes(value.bit_length() // 8 + 1)
    return int.from_bytes(hashlib.shake_128(data).digest(size.bit_length() // 8 + _SPARE)) % size


def _number(digits: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for digit, size in zip(digits, sizes, strict=True):
        number = number * size + digit
    return number


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    digits = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    return digits[::-1]


class HashPermutation:
    """A keyed permutation of 32-bit hashes; 0 stays 0."""

    __slots__ = ("_tables",)

    def __init__(self, secret: bytes) -> None:
        draws = (hashlib.shake_128(secret + b"hash" + bytes([turn])) for turn in range(_TURNS))
        self._tables = [np.frombuffer(draw.digest(2 * _HALF), np.uint16).astype(np.int64) for draw in draws]

    def codes(self, values: Longs) -> Longs:
        """The images of tag codes, all of them signed 32-bit numbers: any number but 0."""
        return self._walked(values, keeps_sign=False)

    def key_hashes(self, values: Longs) -> Longs:
        """The images of key hashes: of positive numbers positive ones, of negative (wrong) ones negative."""
        return self._walked(values, keeps_sign=True)

    def _walked(self, values: Longs, *, keeps_sign: bool) -> Longs:
        """Permute until the image is one of the wanted kind: so the kind is permuted in itself."""
        made = values.astype(np.int64)
        rows = np.flatnonzero(made)
        while len(rows):
            made[rows] = self._once(made[rows])
            bad = made[rows] == 0
            if keeps_sign:
                bad |= (made[rows] < 0) != (values[rows] < 0)
            rows = rows[bad]
        return made

    def _once(self, values: Longs) -> Longs:
        left, right = (values % _WORD) >> 16, values & (_HALF - 1)
        for table in self._tables:
            left, right = right, left ^ table[right]
        words: NDArray[np.int64] = left << 16 | right
        return np.where(words >= _WORD >> 1, words - _WORD, words)
