"""Single machine operations for kernels: big-endian loads, stores, a few others.

An address is an int64. Nothing here checks it: every kernel proves first that the bytes are its own to
read. Whatever is loaded as a number is big-endian on disk (reference 0.1) and comes out native.
"""

from __future__ import annotations

from typing import Any

from rocketfsck.scan.machine.compiler import intrinsic, ir, types

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
WORD_MASK = 0xFFFFFFFF

Builder = Any
Value = Any


def load_at(builder: Builder, address: Value, kind: Any) -> Value:
    """An unaligned load of `kind` from an int64 address."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()), typ=kind)
    value.align = 1
    return value


def _loader(kind: Any, signed: bool) -> Any:
    def load(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            value = load_at(builder, args[0], kind)
            if kind.width > 8:
                value = builder.bswap(value)
            if kind.width == 64:
                return value
            return builder.sext(value, I64) if signed else builder.zext(value, I64)

        return types.int64(types.int64), codegen

    return intrinsic(load)


load_u8 = _loader(I8, False)
load_i8 = _loader(I8, True)
load_i16 = _loader(I16, True)
load_i32 = _loader(I32, True)
load_u32 = _loader(I32, False)
load_i64 = _loader(I64, True)


def _storer(kind: Any) -> Any:
    def store(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            stored = args[1] if kind.width == 64 else builder.trunc(args[1], kind)
            builder.store(stored, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return intrinsic(store)


store_u8 = _storer(I8)
store_i32 = _storer(I32)
store_i64 = _storer(I64)


def _native_loader(kind: Any) -> Any:
    def load(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            value = load_at(builder, args[0], kind)
            return value if kind.width == 64 else builder.sext(value, I64)

        return types.int64(types.int64), codegen

    return intrinsic(load)


native_i32 = _native_loader(I32)
native_i64 = _native_loader(I64)


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
    """Asks for the cache line at an address; any address may be asked for."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        pointer = builder.inttoptr(args[0], I8.as_pointer())
        function_type = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
        hints = [ir.Constant(I32, number) for number in (0, 3, 1)]  # read, keep, data
        builder.call(function, [pointer, *hints])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def call_crc(typingctx: Any, function: Any, address: Any, size: Any) -> Any:  # noqa: ARG001
    """CRC-32 by a C function given by its address: `crc(start, pointer, size)`; its low 32 bits."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        function_type = ir.FunctionType(I64, [I64, I64, I64])
        pointer = builder.inttoptr(args[0], function_type.as_pointer())
        value = builder.call(pointer, [ir.Constant(I64, 0), args[1], args[2]])
        return builder.and_(value, ir.Constant(I64, WORD_MASK))

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def high_product(typingctx: Any, left: Any, right: Any) -> Any:  # noqa: ARG001
    """The upper 64 bits of the unsigned 128-bit product."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)

    return types.uint64(types.uint64, types.uint64), codegen


def row_storer(kinds: list[str], first: int) -> Any:
    """An intrinsic `store(columns, row, values)` that writes one row of columns of these NumPy kinds.

    At address `columns` are the columns' addresses, those of this table from number `first` on.
    """

    def store(typingctx: Any, columns: Any, row: Any, values: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
            columns, row, values = args
            for index, kind in enumerate(kinds):
                size = int(kind[1:])
                place = builder.add(columns, ir.Constant(I64, 8 * (first + index)))
                column = load_at(builder, place, I64)
                target = builder.add(column, builder.mul(row, ir.Constant(I64, size)))
                value = builder.extract_value(values, index)
                element = ir.IntType(8 * size)
                stored = value if size == 8 else builder.trunc(value, element)
                builder.store(stored, builder.inttoptr(target, element.as_pointer()), align=1)
            return context.get_dummy_value()

        row_type = types.UniTuple(types.int64, len(kinds))
        return types.void(types.int64, types.int64, row_type), codegen

    return intrinsic(store)
