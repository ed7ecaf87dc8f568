"""The properties of a record, for kernels: the values that the scan wants, and whether all are in shape.

    properties := name 0x01 value (0x02 name 0x01 value)* 0x02?        (reference 2.5)

One pass over the bytes; both of RocketMQ's parsers. What they make of a piece differs
only where a piece has no 0x01, several, or nothing on one side of it.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from rocketfsck.scan.columns import Fault
from rocketfsck.scan.machine.intrinsics import load_i16, load_i32, load_i64, load_u8, native_i64, store_i64
from rocketfsck.scan.machine.jit import helper, inlined

# the properties wanted: their place among the values found
TAGS, KEYS, UNIQ_KEY, DELAY, INNER_NUM, INNER_BASE, DISPATCH, DISPATCH_OFFSET, CRC32 = range(9)
FOUND_COUNT = 9

_F_NUL, _F_SHAPE = int(Fault.PROPERTY_NUL), int(Fault.PROPERTY_SHAPE)
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # of each byte of a word


def word(text: str) -> int:
    """ASCII text as the number that a big-endian load gives."""
    return int.from_bytes(text.encode(), "big")


_W_TAGS, _W_KEYS, _W_DELA, _W_UNIQ_KEY = word("TAGS"), word("KEYS"), word("DELA"), word("UNIQ_KEY")
_W_CRC32, _W_INNER_NU, _W_INNER_BA = word("__CRC32#"), word("INNER_NU"), word("INNER_BA")
_W_INNER_MU, _W_LTI_DISP, _W_ATCH = word("INNER_MU"), word("LTI_DISP"), word("ATCH")
_W_LTI_QUEU, _W_E_OFFSET, _W_SE = word("LTI_QUEU"), word("E_OFFSET"), word("SE")


@inlined
def wanted_property(name: int, size: int) -> int:
    """Which of the properties wanted the `size` bytes at address `name` spell, -1 for none."""
    if size == 4:
        word = load_i32(name)
        if word == _W_TAGS:
            return TAGS
        if word == _W_KEYS:
            return KEYS
        return -1
    if size == 8:
        long_word = load_i64(name)
        if long_word == _W_UNIQ_KEY:
            return UNIQ_KEY
        if long_word == _W_CRC32:
            return CRC32
        return -1
    if size == 5:
        if load_i32(name) == _W_DELA and load_u8(name + 4) == 0x59:
            return DELAY
        return -1
    if size < 9 or size > 24:
        return -1
    if size == 9:
        if load_i64(name) == _W_INNER_NU and load_u8(name + 8) == 0x4D:
            return INNER_NUM
        return -1
    if size == 10:
        if load_i64(name) == _W_INNER_BA and load_i16(name + 8) == _W_SE:
            return INNER_BASE
        return -1
    if size == 20:
        if (
            load_i64(name) == _W_INNER_MU
            and load_i64(name + 8) == _W_LTI_DISP
            and load_i32(name + 16) == _W_ATCH
        ):
            return DISPATCH
        return -1
    if (
        size == 24
        and load_i64(name) == _W_INNER_MU
        and load_i64(name + 8) == _W_LTI_QUEU
        and load_i64(name + 16) == _W_E_OFFSET
    ):
        return DISPATCH_OFFSET
    return -1


@inlined
def no_mark(word: int) -> bool:
    """Whether none of a word's eight bytes is 0, 1 or 2."""
    return ((word & 0x7F7F7F7F7F7F7F7F) + 0x7D7D7D7D7D7D7D7D | word) & _HIGH_BITS == _HIGH_BITS


@helper
def odd_piece(piece: int, mark: int, marks: int, size: int, split: bool) -> int:
    """The size of the value of a piece that is not `name 0x01 value`, -1 if the parser drops it.

    `mark` is the first 0x01's place in the piece of `size` bytes, `marks` how many there are.
    """
    if marks == 0:
        return -1
    if not split:
        return size - mark - 1 if 0 < mark < size - 1 else -1
    kept = size
    while kept > 0 and load_u8(piece + kept - 1) == 1:
        kept -= 1
        marks -= 1
    return kept - mark - 1 if marks == 1 else -1


@inlined
def find_properties(address: int, size: int, split: bool, found: int) -> int:
    """Notes in `found` where the wanted properties' values are; gives the faults of the properties' shape.

    A value is noted as place << 32 | size; the last of a name wins.
    """
    faults = 0
    piece = 0
    mark = 0
    marks = 0
    nul = 0
    end = -1
    while end < size:
        end += 1
        while end + 8 <= size and no_mark(native_i64(address + end)):
            end += 8
        if end < size:
            byte = load_u8(address + end)
            if byte > 2:
                continue
            if byte == 1:
                if marks == 0:
                    mark = end
                marks += 1
                continue
            if byte == 0:  # a write that was torn leaves zeros to the end, or many, or no shape
                nul = 1
                if end == size - 1 or (end + 8 <= size and native_i64(address + end) == 0):
                    faults |= _F_NUL
                continue
        if marks == 1 and mark > piece and mark + 1 < end:
            index = wanted_property(address + piece, mark - piece)
            if index >= 0:
                store_i64(found + 8 * index, (mark + 1) << 32 | (end - mark - 1))
        elif end > piece:
            faults |= _F_SHAPE
            value_size = odd_piece(address + piece, mark - piece, marks, end - piece, split)
            if value_size >= 0:
                index = wanted_property(address + piece, mark - piece)
                if index >= 0:
                    store_i64(found + 8 * index, (mark + 1) << 32 | value_size)
        piece = end + 1
        marks = 0
    if nul and faults & _F_SHAPE:
        faults |= _F_NUL
    return faults
