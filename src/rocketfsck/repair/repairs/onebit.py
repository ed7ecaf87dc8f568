"""One flipped bit, found from the CRC that it broke. Reference 2.6.

CRC-32 is linear over GF(2): computed xor stored (the syndrome) depends on the error alone, not on the body.
A single wrong bit with d bits after it gives x**(d + 32) mod P, so d is a discrete logarithm, found by baby
and giant steps in about the square root of the body's bits; nothing is tried on the body. The stored CRC
lacks its top bit, so there are two syndromes to solve for. A syndrome of one bit is a flip of the CRC field
itself.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache

from rocketfsck.store.reading import FileReader

POLYNOMIAL = 0xEDB88320
"""P without x**32, bit-reflected as zlib has it: bit 31 is x**0, bit 0 is x**31."""

ORDER = (1 << 32) - 1
"""P is primitive: the powers of x repeat after so many."""

CRC_MASK = 0x7FFFFFFF
CHUNK_SIZE = 1 << 20

_TOP = 1 << 31
_ONE = 1 << 31  # x**0


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """The one bit that explains a CRC error.

    `in_body`: it is a bit of the body, else of the four bytes of the bodyCRC field. `byte` counts from the
    first byte of the body or the field, `mask` has the bit set that must be flipped back. `odds` is how
    likely it is that damage of another kind looks like this (0 to 1): the share of the 2**31 syndromes that
    some single bit of this body or field explains.
    """

    in_body: bool
    byte: int
    mask: int
    odds: float


def find_flipped_bit(body: bytes | memoryview, stored_crc: int) -> FlippedBit | None:
    """The only single bit whose flip makes `body` and `stored_crc` (a signed or unsigned i32) agree.

    None if they agree already, if the body is empty (readers do not check it), and if no single bit or more
    than one explains the difference.
    """
    return explain_crc(zlib.crc32(body), len(body), stored_crc)


def find_flipped_bit_in_file(reader: FileReader, start: int, end: int, stored_crc: int) -> FlippedBit | None:
    """`find_flipped_bit` of the file's bytes `start:end`, read in chunks. Raises StoreError."""
    crc = 0
    for pos in range(start, end, CHUNK_SIZE):
        crc = zlib.crc32(reader.read(pos, min(CHUNK_SIZE, end - pos)), crc)
    return explain_crc(crc, end - start, stored_crc)


def explain_crc(crc: int, body_size: int, stored_crc: int) -> FlippedBit | None:
    """`find_flipped_bit` of a body of `body_size` bytes whose whole 32-bit CRC is `crc`."""
    difference = (crc & CRC_MASK) ^ (stored_crc & 0xFFFFFFFF)
    if body_size <= 0 or difference == 0:
        return None
    odds = min((8 * body_size + 32) / (1 << 31), 1.0)
    found = []
    if difference & (difference - 1) == 0:
        bit = difference.bit_length() - 1
        found.append(FlippedBit(False, 3 - bit // 8, 1 << bit % 8, odds))
    if not difference & _TOP:  # a broker writes no top bit: set, it is a flip, and the body is not to blame
        bit_count = 8 * body_size
        for syndrome in (difference, difference | _TOP):
            for distance in _distances(syndrome, bit_count):
                pos = bit_count - 1 - distance
                found.append(FlippedBit(True, pos // 8, 1 << pos % 8, odds))
    return found[0] if len(found) == 1 else None


def _distances(syndrome: int, bit_count: int) -> list[int]:
    """Every d in 0..bit_count-1 with x**(d + 32) = syndrome mod P."""
    # more baby steps than giant ones, and few different counts of them: the table is kept
    width = 1 << (bit_count.bit_length() + 1) // 2 + 2
    steps = _baby_steps(width)
    giant = _products(_power(ORDER - width))  # x**-width
    value = _looked_up(_products(_power(ORDER - 32)), syndrome)
    for start in range(0, min(bit_count, ORDER), width):
        step = steps.get(value)
        if step is not None:
            return list(range(start + step, bit_count, ORDER))
        value = _looked_up(giant, value)
    return []


@cache
def _baby_steps(width: int) -> dict[int, int]:
    """x**0 to x**(width - 1), each with its exponent. Bounded: a body has at most 2**34 bits."""
    steps = {}
    value = _ONE
    for exponent in range(width):
        steps[value] = exponent
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return steps


@cache
def _power(exponent: int) -> int:
    """x**exponent mod P."""
    result, base = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _multiply(result, base)
        base = _multiply(base, base)
        exponent >>= 1
    return result


def _multiply(left: int, right: int) -> int:
    """The product of two polynomials mod P."""
    product = 0
    while right:
        if right & _ONE:
            product ^= left
        left = left >> 1 ^ (POLYNOMIAL if left & 1 else 0)
        right = right << 1 & 0xFFFFFFFF
    return product


Products = tuple[tuple[int, ...], ...]
"""For each byte of a polynomial, by its value: what it adds to a product with a fixed one."""


@cache
def _products(factor: int) -> Products:
    """The products of one polynomial with all others, byte by byte. Factors are few: see `_distances`."""
    return tuple(tuple(_multiply(byte << shift, factor) for byte in range(256)) for shift in (0, 8, 16, 24))


def _looked_up(products: Products, value: int) -> int:
    low, second, third, high = products
    return low[value & 255] ^ second[value >> 8 & 255] ^ third[value >> 16 & 255] ^ high[value >> 24]
