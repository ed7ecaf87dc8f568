"""CRC-32 (reflected polynomial 0xEDB88320, as zlib's; reference 2.6) inside compiled kernels.

By carry-less multiplication where the processor has it, 512, 256 or 128 bits at once, else by sixteen
tables. A message of n bytes is taken as whole blocks with zeros in front: zeros before the first byte leave
an empty register empty, and the register's start value is xored into the message's first four bytes. Each
block is folded onto the next by two constants x**(distance +- 32) mod P, the last 128 bits are reduced by
Barrett's method (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ").

A C function's address can be given instead (`external_crc`): cached code holds no symbol that could be
missing. `chosen` tests what it gives out against zlib first.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import ctypes
import importlib.util
import os
import zlib
from functools import cache
from typing import Any

import numpy as np

from rocketfsck.scan.compiler import intrinsic, ir, types
from rocketfsck.scan.intrinsics import (
    FEATURES,
    I8,
    I32,
    I64,
    WORD_MASK,
    call_crc,
    call_llvm,
    load_at,
    load_u8,
)
from rocketfsck.scan.jit import entry, helper, inlined

POLYNOMIAL = 0xEDB88320
SMALLEST = 4  # bytes; below, the start value does not fit in the message


def _power(exponent: int) -> int:
    """x**exponent mod P, bit-reflected into 33 bits, as the reflected product wants it."""
    value = 0x80000000  # x**0
    for _ in range(exponent):
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return value << 1


def _barrett() -> tuple[int, int]:
    """x**64 / P and P, both bit-reflected into 33 bits."""
    full = int(f"{POLYNOMIAL:032b}"[::-1], 2) | 1 << 32
    quotient, rest = 0, 1 << 64
    for bit in range(32, -1, -1):
        if rest >> (bit + 32) & 1:
            quotient |= 1 << bit
            rest ^= full << bit
    return int(f"{quotient:033b}"[::-1], 2), int(f"{full:033b}"[::-1], 2)


def _width() -> int:
    """How many 128-bit lanes one carry-less multiplication has here; 0 without one."""
    if "vpclmulqdq" in FEATURES and {"avx512f", "avx512bw", "avx512vl"} <= FEATURES:
        return 4
    if {"vpclmulqdq", "avx2"} <= FEATURES:
        return 2
    return 1 if {"pclmul", "sse4.1"} <= FEATURES else 0


LANES = _width()


class _Folding:
    """Writes the IR of the folding for `lanes` lanes of 128 bits."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.size = 16 * lanes
        self.kind = ir.VectorType(I64, 2 * lanes)
        suffix = {1: "", 2: ".256", 4: ".512"}[lanes]
        self.name = f"llvm.x86.pclmulqdq{suffix}"

    def multiply(self, left: Any, right: Any, half: int) -> Any:
        name = "llvm.x86.pclmulqdq" if left.type.count == 2 else self.name
        return call_llvm(self.builder, name, left.type, [left, right, ir.Constant(I8, half)])

    def by(self, distances: list[int]) -> Any:
        """The constants that move a lane on by so many bits; 0 gives 0."""
        numbers = []
        for distance in distances:
            numbers += [_power(distance + 32), _power(distance - 32)] if distance else [0, 0]
        return ir.Constant(ir.VectorType(I64, len(numbers)), numbers)

    def fold(self, value: Any, constants: Any, data: Any) -> Any:
        low = self.multiply(value, constants, 0x00)
        high = self.multiply(value, constants, 0x11)
        moved = self.builder.xor(low, high)
        return moved if data is None else self.builder.xor(moved, data)

    def blocks(self, count: int) -> Any:
        return self.by([128 * self.lanes * count] * self.lanes)

    def load(self, address: Any, block: int = 0) -> Any:
        at = self.builder.add(address, ir.Constant(I64, block * self.size)) if block else address
        return load_at(self.builder, at, self.kind)

    def reduce(self, value: Any) -> Any:
        """The CRC that a vector of lanes, the last one being the newest, stands for."""
        builder = self.builder
        pair = ir.VectorType(I64, 2)
        if self.lanes > 1:
            moved = self.fold(value, self.by([128 * n for n in range(self.lanes - 1, -1, -1)]), None)
            newest = ir.Constant(self.kind, [0] * (2 * self.lanes - 2) + [-1, -1])
            moved = builder.xor(moved, builder.and_(value, newest))
            number = ir.VectorType(I32, 2)
            lanes = [
                builder.shuffle_vector(moved, moved, ir.Constant(number, [2 * n, 2 * n + 1]))
                for n in range(self.lanes)
            ]
            value = lanes[0]
            for lane in lanes[1:]:
                value = builder.xor(value, lane)
        high_only = ir.Constant(ir.VectorType(I32, 2), [1, 2])
        zero = ir.Constant(pair, [0, 0])
        upper = builder.shuffle_vector(value, zero, high_only)  # shifted right by 64 bits
        value = builder.xor(self.multiply(value, ir.Constant(pair, [_power(96), 0]), 0x00), upper)
        low_word = ir.Constant(pair, [WORD_MASK, 0])
        bits = builder.bitcast(value, ir.IntType(128))
        shifted = builder.bitcast(builder.lshr(bits, ir.Constant(ir.IntType(128), 32)), pair)
        value = builder.xor(
            self.multiply(builder.and_(value, low_word), ir.Constant(pair, [_power(64), 0]), 0x00), shifted
        )
        mu, modulus = _barrett()
        quotient = self.multiply(builder.and_(value, low_word), ir.Constant(pair, [mu, 0]), 0x00)
        product = self.multiply(builder.and_(quotient, low_word), ir.Constant(pair, [modulus, 0]), 0x00)
        value = builder.xor(value, product)
        word = builder.extract_element(builder.bitcast(value, ir.VectorType(I32, 4)), ir.Constant(I32, 1))
        return builder.zext(builder.not_(word), I64)


def _table(builder: Any, name: str, data: bytes) -> Any:
    """The address of constant bytes in the module."""
    module = builder.module
    found = module.globals.get(name)
    if found is None:
        found = ir.GlobalVariable(module, ir.ArrayType(I8, len(data)), name)
        found.initializer = ir.Constant(found.type.pointee, bytearray(data))
        found.linkage = "internal"
        found.global_constant = True
    return builder.ptrtoint(found, I64)


@intrinsic
def fold_crc(typingctx: Any, address: Any, size: Any) -> Any:  # noqa: ARG001
    """CRC-32 of `size` (at least 4) bytes by folding. Loads up to LANES * 16 - 1 bytes before `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        address, size = args
        folding = _Folding(builder, LANES)
        width = folding.size

        def number(value: int) -> Any:
            return ir.Constant(I64, value)

        wanted = _table(builder, f"crc_wanted_{width}", bytes(width) + b"\xff" * width)
        start = _table(builder, f"crc_start_{width}", bytes(width) + b"\xff" * 4 + bytes(2 * width))
        first_size = builder.add(builder.and_(builder.sub(size, number(1)), number(width - 1)), number(1))
        at = builder.add(address, first_size)
        first = builder.and_(
            folding.load(builder.sub(at, number(width))), folding.load(builder.add(wanted, first_size))
        )
        first = builder.xor(first, folding.load(builder.add(start, first_size)))
        count = builder.udiv(builder.sub(size, first_size), number(width))
        entry_block = builder.block
        second_block = builder.append_basic_block("crc.second")
        four_block = builder.append_basic_block("crc.four")
        four_loop = builder.append_basic_block("crc.four.loop")
        merge_block = builder.append_basic_block("crc.merge")
        one_loop = builder.append_basic_block("crc.one")
        one_body = builder.append_basic_block("crc.one.body")
        done = builder.append_basic_block("crc.done")
        builder.cbranch(builder.icmp_unsigned("==", count, number(0)), done, second_block)

        builder.position_at_end(second_block)
        late_start = folding.load(builder.add(start, builder.add(first_size, number(width))))
        second = folding.fold(first, folding.blocks(1), builder.xor(folding.load(at), late_start))
        second_at = builder.add(at, number(width))
        second_count = builder.sub(count, number(1))
        builder.cbranch(builder.icmp_unsigned(">=", second_count, number(7)), four_block, one_loop)

        builder.position_at_end(four_block)
        loaded = [folding.load(second_at, block) for block in range(3)]
        four_at = builder.add(second_at, number(3 * width))
        four_count = builder.sub(second_count, number(3))
        builder.branch(four_loop)

        builder.position_at_end(four_loop)
        sums = [builder.phi(folding.kind) for _ in range(4)]
        loop_at, loop_count = builder.phi(I64), builder.phi(I64)
        for phi, value in zip(sums, [second, *loaded], strict=True):
            phi.add_incoming(value, four_block)
        loop_at.add_incoming(four_at, four_block)
        loop_count.add_incoming(four_count, four_block)
        constants = folding.blocks(4)
        folded = [folding.fold(phi, constants, folding.load(loop_at, n)) for n, phi in enumerate(sums)]
        next_at = builder.add(loop_at, number(4 * width))
        next_count = builder.sub(loop_count, number(4))
        for phi, value in zip(sums, folded, strict=True):
            phi.add_incoming(value, four_loop)
        loop_at.add_incoming(next_at, four_loop)
        loop_count.add_incoming(next_count, four_loop)
        builder.cbranch(builder.icmp_unsigned(">=", next_count, number(4)), four_loop, merge_block)

        builder.position_at_end(merge_block)
        merged = folded[3]
        for index, distance in ((0, 3), (1, 2), (2, 1)):
            merged = folding.fold(folded[index], folding.blocks(distance), merged)
        builder.branch(one_loop)

        builder.position_at_end(one_loop)
        total, one_at, one_count = builder.phi(folding.kind), builder.phi(I64), builder.phi(I64)
        for phi, here, there in (
            (total, second, merged),
            (one_at, second_at, next_at),
            (one_count, second_count, next_count),
        ):
            phi.add_incoming(here, second_block)
            phi.add_incoming(there, merge_block)
        builder.cbranch(builder.icmp_unsigned("==", one_count, number(0)), done, one_body)

        builder.position_at_end(one_body)
        total.add_incoming(folding.fold(total, folding.blocks(1), folding.load(one_at)), one_body)
        one_at.add_incoming(builder.add(one_at, number(width)), one_body)
        one_count.add_incoming(builder.sub(one_count, number(1)), one_body)
        builder.branch(one_loop)

        builder.position_at_end(done)
        result = builder.phi(folding.kind)
        result.add_incoming(first, entry_block)
        result.add_incoming(total, one_loop)
        return folding.reduce(result)

    return types.int64(types.int64, types.int64), codegen


def _tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, 16):
        tables[row] = tables[row - 1] >> np.uint32(8) ^ tables[0][tables[row - 1] & np.uint32(0xFF)]
    return tables


TABLES = _tables()


@helper
def table_crc(address: int, size: int) -> int:
    """CRC-32 of any number of bytes by tables, sixteen bytes a step."""
    value = WORD_MASK
    at = address
    end = address + size
    while at + 16 <= end:
        step = 0
        for index in range(16):
            byte = load_u8(at + index)
            if index < 4:
                byte ^= value >> 8 * index & 0xFF
            step ^= np.int64(TABLES[15 - index, byte])
        value = step
        at += 16
    while at < end:
        value = value >> 8 ^ np.int64(TABLES[0, (value ^ load_u8(at)) & 0xFF])
        at += 1
    return value ^ WORD_MASK


if LANES:

    @inlined
    def crc32(address: int, size: int, low: int, external: int) -> int:
        """CRC-32 of `size` bytes, an unsigned number; nothing before address `low` is loaded.

        `external` is the address of a C function to call instead, 0 for none.
        """
        if external != 0:
            return call_crc(external, address, size)
        if size < SMALLEST or address - low < 16 * LANES - 1:
            return table_crc(address, size)
        return fold_crc(address, size)

else:

    @inlined
    def crc32(address: int, size: int, low: int, external: int) -> int:  # noqa: ARG001
        """CRC-32 of `size` bytes, an unsigned number; `external` as above."""
        if external != 0:
            return call_crc(external, address, size)
        return table_crc(address, size)


@entry
def crc32_of(address: int, size: int, low: int, external: int) -> int:
    """`crc32` for Python to call."""
    return crc32(address, size, low, external)


EXTERNAL = {
    "isal": ("isal.isal_zlib", "crc32_gzip_refl"),
    "libdeflate": ("deflate", "libdeflate_crc32"),
    "zlib": ("zlib", "crc32_z"),
}


def external_crc(name: str) -> int:
    """The address of a C function `crc(start, pointer, size)` in an installed library, 0 if there is none."""
    module, symbol = EXTERNAL[name]
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        return 0
    origins = [spec.origin if spec is not None and spec.has_location else None]
    if name == "zlib":
        origins += [None, "libz.so.1"]
    for origin in origins:
        try:
            function = getattr(ctypes.CDLL(origin), symbol)
        except (OSError, AttributeError):
            continue
        _LIBRARIES.append(function)  # the library stays loaded as long as its address is in use
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


_LIBRARIES: list[Any] = []


def is_right(external: int) -> bool:
    """Whether `crc32` gives what zlib gives, for sizes and places that take every way through it."""
    data = np.frombuffer(bytes((7 * n + (n >> 3)) & 0xFF for n in range(2304)), np.uint8).copy()
    text = data.tobytes()
    low = data.ctypes.data
    sizes = (1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 66, 67, 128, 191, 256, 512, 513, 575, 1024, 1027, 2200)
    return all(
        crc32_of(low + at, size, low, external) == zlib.crc32(text[at : at + size])
        for at in (0, 63, 64, 97)
        for size in sizes
    )


@cache
def chosen() -> int | None:
    """What to give kernels as `external`: 0 for this module's own CRC, or a C function's address.

    ROCKETFSCK_CRC (`own`, `isal`, `libdeflate`, `zlib`) asks for one by name. None if all of them are
    wrong here: then no kernel that needs a CRC may run.
    """
    asked = os.environ.get("ROCKETFSCK_CRC") or "auto"
    order = [asked] if asked in EXTERNAL else []
    order += ["own", "isal", "libdeflate", "zlib"] if LANES else ["isal", "libdeflate", "own", "zlib"]
    for name in order:
        address = 0 if name == "own" else external_crc(name)
        if (name == "own" or address) and is_right(address):
            return address
    return None
