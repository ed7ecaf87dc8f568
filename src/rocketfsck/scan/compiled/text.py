"""Java's view of bytes, for kernels: string hashes over UTF-16 units, malformed UTF-8, decimal numbers,
and what properties hold of them: hashes of keys, digits of a CRC.

ASCII takes the quick way; bytes from 0x80 on take the slow, exact way of Java's own decoder (one U+FFFD for
what it skips; reference 0.1, 2.5).
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import numpy as np

from rocketfsck.scan.machine.intrinsics import WORD_MASK, load_u8, load_u32
from rocketfsck.scan.machine.jit import helper, inlined

SPACE = 0x20
REPLACEMENT = 0xFFFD
ODD = -1  # how decoding says that a character is malformed

# the zero of every row of ten decimal digits in the BMP: what Character.digit(char, 10) takes
ZEROS = np.array(
    [
        *(0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6),
        *(0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80),
        *(0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0),
        0xFF10,
    ],
    np.int64,
)


@inlined
def signed32(value: int) -> int:
    """The low 32 bits as a signed number."""
    return ((value & WORD_MASK) ^ 0x80000000) - 0x80000000


@inlined
def same_bytes(left: int, right: int, size: int) -> bool:
    """Whether `size` bytes are equal."""
    differing = 0
    for index in range(size):
        differing |= load_u8(left + index) ^ load_u8(right + index)
    return differing == 0


@helper
def all_zero(address: int, size: int) -> bool:
    """Whether `size` bytes are all zero."""
    bits = 0
    for index in range(size):
        bits |= load_u8(address + index)
    return bits == 0


@helper
def decode_step(address: int, left: int) -> tuple[int, int]:
    """One character of UTF-8 as Java reads it: (code point or ODD, bytes used); the first byte is >= 0x80.

    A lone `ODD` stands for one U+FFFD; the bytes used are those that Java skips for it.
    """
    b1 = load_u8(address)
    if b1 < 0xC2 or b1 > 0xF7:
        return ODD, 1
    if left == 1:
        return ODD, 1
    b2 = load_u8(address + 1)
    if b1 < 0xE0:
        if b2 & 0xC0 != 0x80:
            return ODD, 1
        return (b1 & 0x1F) << 6 | (b2 & 0x3F), 2
    if b1 < 0xF0:
        if b2 & 0xC0 != 0x80 or (b1 == 0xE0 and b2 & 0xE0 == 0x80):
            return ODD, 1
        if left == 2 or load_u8(address + 2) & 0xC0 != 0x80:
            return ODD, 2
        code = (b1 & 0x0F) << 12 | (b2 & 0x3F) << 6 | (load_u8(address + 2) & 0x3F)
        if code & 0xF800 == 0xD800:
            return ODD, 3
        return code, 3
    if b1 > 0xF4 or b2 & 0xC0 != 0x80 or (b1 == 0xF0 and b2 < 0x90) or (b1 == 0xF4 and b2 & 0xF0 != 0x80):
        return ODD, 1
    if left == 2 or load_u8(address + 2) & 0xC0 != 0x80:
        return ODD, 2
    if left == 3 or load_u8(address + 3) & 0xC0 != 0x80:
        return ODD, 3
    code = (b1 & 0x07) << 18 | (b2 & 0x3F) << 12 | (load_u8(address + 2) & 0x3F) << 6
    return code | (load_u8(address + 3) & 0x3F), 4


@helper
def decoded_hash(address: int, size: int, start: int) -> int:
    """Java's hash over the UTF-16 units of UTF-8 bytes, going on from the hash `start`; 32 bits."""
    total = start
    at = 0
    while at < size:
        byte = load_u8(address + at)
        if byte < 0x80:
            total = (total * 31 + byte) & WORD_MASK
            at += 1
            continue
        code, used = decode_step(address + at, size - at)
        at += used
        if code == ODD:
            code = REPLACEMENT
        if code > 0xFFFF:
            total = (total * 31 + (0xD800 + ((code - 0x10000) >> 10))) & WORD_MASK
            code = 0xDC00 + (code & 0x3FF)
        total = (total * 31 + code) & WORD_MASK
    return total


@helper
def is_utf8(address: int, size: int) -> bool:
    """Whether the bytes are well-formed UTF-8."""
    at = 0
    while at < size:
        if load_u8(address + at) < 0x80:
            at += 1
            continue
        code, used = decode_step(address + at, size - at)
        if code == ODD:
            return False
        at += used
    return True


@inlined
def text_hash(address: int, size: int, start: int) -> int:
    """Java's hash of UTF-8 bytes, going on from the hash `start`; 32 bits."""
    total = start
    bits = 0
    at = 0
    while at + 4 <= size:  # each product waits for the one before: one for four bytes, not four
        word = load_u32(address + at)
        bits |= word
        later = (word >> 16 & 0xFF) * 31**2 + (word >> 8 & 0xFF) * 31 + (word & 0xFF)
        total = (total * 31**4 + (word >> 24) * 31**3 + later) & WORD_MASK
        at += 4
    while at < size:
        byte = load_u8(address + at)
        bits |= byte
        total = (total * 31 + byte) & WORD_MASK
        at += 1
    if bits & 0x80808080 != 0:
        return decoded_hash(address, size, start)
    return total


@inlined
def byte_hash(address: int, size: int) -> int:
    """The same polynomial over the bytes themselves, whatever they spell; 32 bits."""
    total = 0
    for index in range(size):
        total = (total * 31 + load_u8(address + index)) & WORD_MASK
    return total


@helper
def parse_decimal(address: int, size: int, most: int) -> tuple[bool, int]:
    """Java's parseInt and its kin: (it is a number from -most-1 to most, the number or 0)."""
    at = 0
    negative = False
    if size > 0:
        sign = load_u8(address)
        if sign == 0x2B or sign == 0x2D:
            negative = sign == 0x2D
            at = 1
    if at == size:
        return False, 0
    total = np.uint64(0)
    bound = np.uint64(most) + np.uint64(1) if negative else np.uint64(most)
    tenth = bound // np.uint64(10)
    while at < size:
        code = load_u8(address + at)
        used = 1
        if code >= 0x80:
            code, used = decode_step(address + at, size - at)
        at += used
        digit = -1
        if 0x30 <= code <= 0x39:
            digit = code - 0x30
        elif code >= 0x80:
            for zero in ZEROS:
                if zero <= code < zero + 10:
                    digit = code - zero
        if digit < 0 or total > tenth:
            return False, 0
        total = total * np.uint64(10) + np.uint64(digit)
        if total > bound:
            return False, 0
    number = np.int64(total)
    return True, -number if negative else number


@helper
def reversed_digits(crc_value: int, address: int) -> bool:
    """Whether the ten bytes at an address are a CRC's decimal digits, the lowest first (reference 2.7)."""
    left = crc_value
    for index in range(10):
        if load_u8(address + index) != 0x30 + left % 10:
            return False
        left //= 10
    return True


@inlined
def index_hash(value: int) -> int:
    """keyHash from Java's hash of topic#key (reference 4.3): Math.abs of it, and 0 for the least int."""
    sign = value >> 31  # no branch: half of all hashes are negative
    return ((value ^ -sign) + sign) & 0x7FFFFFFF


@inlined
def word_hash(address: int, end: int, start: int) -> tuple[int, int]:
    """Size of the bytes up to a space or `end`, and their `text_hash`."""
    total = start
    bits = 0
    at = address
    while at < end:
        byte = load_u8(at)
        if byte == SPACE:
            break
        bits |= byte
        total = total * 31 + byte
        at += 1
    if bits & 0x80:
        total = decoded_hash(address, at - address, start)
    return at - address, total & WORD_MASK
