"""Single machine operations for kernels: big-endian loads, stores, a few others.

An address is an int64. Nothing here checks it: every kernel proves first that the bytes are its own to
read. Whatever is loaded as a number is big-endian on disk (reference 0.1) and comes out native.
"""

from __future__ import annotations

from typing import Any

from rocketfsck.scan.machine.compiler import intrinsic, ir, types

WORD_MASK = 0xFFFFFFFF

Builder = Any
Value = Any


def load_at(builder: Builder, address: Value, bits: int) -> Value:
    """An unaligned load of an integer of so many bits from an int64 address."""
    kind = ir.IntType(bits)
    value = builder.load(builder.inttoptr(address, kind.as_pointer()), typ=kind)
    value.align = 1
    return value


def _loader(bits: int, signed: bool, *, native: bool = False) -> Any:
    def load(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            value = load_at(builder, args[0], bits)
            if bits > 8 and not native:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, ir.IntType(64)) if signed else builder.zext(value, ir.IntType(64))

        return types.int64(types.int64), codegen

    return intrinsic(load)


load_u8 = _loader(8, False)
load_i8 = _loader(8, True)
load_i16 = _loader(16, True)
load_i32 = _loader(32, True)
load_u32 = _loader(32, False)
load_i64 = _loader(64, True)
native_i32 = _loader(32, True, native=True)
native_i64 = _loader(64, True, native=True)


def _storer(bits: int, *, native: bool = True) -> Any:
    def store(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            kind = ir.IntType(bits)
            stored = args[1] if bits == 64 else builder.trunc(args[1], kind)
            stored = stored if native else builder.bswap(stored)
            builder.store(stored, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return intrinsic(store)


store_u8 = _storer(8)
store_i32 = _storer(32)
store_i64 = _storer(64)
store_be32 = _storer(32, native=False)
store_be64 = _storer(64, native=False)


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
    """Asks for the cache line at an address; any address may be asked for."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.inttoptr(args[0], byte)
        function_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
        hints = [ir.Constant(word, number) for number in (0, 3, 1)]  # read, keep, data
        builder.call(function, [pointer, *hints])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def call_crc(typingctx: Any, function: Any, address: Any, size: Any) -> Any:  # noqa: ARG001
    """CRC-32 by a C function given by its address: `crc(start, pointer, size)`; its low 32 bits."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        number = ir.IntType(64)
        function_type = ir.FunctionType(number, [number] * 3)
        pointer = builder.inttoptr(args[0], function_type.as_pointer())
        value = builder.call(pointer, [ir.Constant(number, 0), args[1], args[2]])
        return builder.and_(value, ir.Constant(number, WORD_MASK))

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def high_product(typingctx: Any, left: Any, right: Any) -> Any:  # noqa: ARG001
    """The upper 64 bits of the unsigned 128-bit product."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


def row_storer(kinds: list[str], first: int) -> Any:
    """An intrinsic `store(columns, row, values)` that writes one row of columns of these NumPy kinds.

    At address `columns` are the columns' addresses, those of this table from number `first` on.
    """

    def store(typingctx: Any, columns: Any, row: Any, values: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            columns, row, values = args
            long = ir.IntType(64)
            for index, kind in enumerate(kinds):
                size = int(kind[1:])
                place = builder.add(columns, ir.Constant(long, 8 * (first + index)))
                column = load_at(builder, place, 64)
                target = builder.add(column, builder.mul(row, ir.Constant(long, size)))
                value = builder.extract_value(values, index)
                element = ir.IntType(8 * size)
                stored = value if size == 8 else builder.trunc(value, element)
                builder.store(stored, builder.inttoptr(target, element.as_pointer()), align=1)
            return context.get_dummy_value()

        row_type = types.UniTuple(types.int64, len(kinds))
        return types.void(types.int64, types.int64, row_type), codegen

    return intrinsic(store)
