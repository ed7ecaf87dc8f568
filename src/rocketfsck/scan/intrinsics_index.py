"""Machine operations for index files: the terms of 16 entries in vectors, products modulo a prime.

What these prove, and why, is told in `chainproof`. Addresses are not checked here (`intrinsics`).
"""

from __future__ import annotations

from typing import Any

from rocketfsck.scan.compiler import intrinsic, ir, types
from rocketfsck.scan.intrinsics import (
    I8,
    I16,
    I32,
    I64,
    WORD_MASK,
    Builder,
    Value,
    call_llvm,
    load_at,
    splat,
)

ENTRY_WORDS = 5  # an index entry in 32-bit words: keyHash, phyOffset (two), timeDiff, prevIndex
WORDS = ir.VectorType(I32, 16)
LONGS = ir.VectorType(I64, 16)


@intrinsic
def multiply_residue(typingctx: Any, product: Any, term: Any) -> Any:  # noqa: ARG001
    """product * (term / 8) modulo 2**61 - 1, not fully reduced; `term` is a multiple of 8.

    With terms below 2**63 + 2**60 the result stays below 2**63 for ever: the upper half of the product of
    both is at most 9/16 of `product`, the lower half adds less than 2**61.
    """

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        wide = ir.IntType(128)
        both = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        upper = builder.trunc(builder.lshr(both, ir.Constant(wide, 64)), I64)
        lower = builder.lshr(builder.trunc(both, I64), ir.Constant(I64, 3))
        return builder.add(upper, lower)

    return types.int64(types.int64, types.int64), codegen


def _pick(builder: Builder, loaded: list[Value], numbers: list[int]) -> Value:
    """The words of these numbers, counted through vectors of 16, as a vector."""

    def joined(left: Value, right: Value, places: list[int]) -> Value:
        return builder.shuffle_vector(left, right, ir.Constant(WORDS, places))

    picked = loaded[0]
    for source in range(0, len(loaded), 2):
        pair = loaded[source : source + 2]
        wanted = [number // 16 - source in range(len(pair)) for number in numbers]
        here = [number - 16 * source if mine else 0 for number, mine in zip(numbers, wanted, strict=True)]
        if not any(wanted):
            continue
        some = joined(pair[0], pair[-1], here)
        lanes = [16 + lane if mine else lane for lane, mine in enumerate(wanted)]
        picked = joined(picked, some, lanes)
    return picked


@intrinsic
def chain_terms(typingctx: Any, entries: Any, first: Any, last_offset: Any, given: Any, terms: Any) -> Any:  # noqa: ARG001
    """The terms of 16 index entries from number `first` on (`kernels_index.link_products`), and their flags.

    `given` are point, slot count, multiplier and shift. At the address `terms` go 16 int64 of (slot, number),
    then 16 of (slot, prevIndex). Flags are 16 bits each, from the lowest on: keyHash negative, timeDiff
    negative, phyOffset below that of the entry in front (`last_offset` for the first), prevIndex not below
    its entry. keyHash // slot count is keyHash * multiplier >> shift.
    """

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> Value:  # noqa: ARG001
        entries, first, last_offset, given, terms = args
        point, slot_count, multiplier, shift = (builder.extract_value(given, number) for number in range(4))

        def spread(value: Value, kind: Any) -> Value:
            one = builder.insert_element(ir.Constant(kind, None), value, ir.Constant(I32, 0))
            return builder.shuffle_vector(
                one, one, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
            )

        def half(value: Value) -> Value:  # tells LLVM that 32 bits times 32 bits are wanted
            return builder.and_(value, splat(I64, WORD_MASK, 16))

        def bits(condition: Value) -> Value:
            return builder.zext(builder.bitcast(condition, I16), I64)

        loaded = [
            call_llvm(
                builder,
                "llvm.bswap.v16i32",
                WORDS,
                [load_at(builder, builder.add(entries, ir.Constant(I64, 64 * number)), WORDS)],
            )
            for number in range(ENTRY_WORDS)
        ]
        hashes, times, links = (
            _pick(builder, loaded, [ENTRY_WORDS * entry + field for entry in range(16)])
            for field in (0, 3, 4)
        )
        offsets = [
            builder.bitcast(
                _pick(
                    builder,
                    loaded,
                    [ENTRY_WORDS * entry + field for entry in range(low, low + 8) for field in (2, 1)],
                ),
                ir.VectorType(I64, 8),
            )
            for low in (0, 8)
        ]
        eight = ir.VectorType(I32, 8)
        in_front = [
            builder.shuffle_vector(before, behind, ir.Constant(eight, [7, 8, 9, 10, 11, 12, 13, 14]))
            for before, behind in ((spread(last_offset, ir.VectorType(I64, 8)), offsets[0]), tuple(offsets))
        ]
        falls = [
            builder.zext(builder.bitcast(builder.icmp_signed("<", mine, other), I8), I64)
            for mine, other in zip(offsets, in_front, strict=True)
        ]
        none = splat(I32, 0, 16)
        counting = ir.Constant(WORDS, list(range(16)))
        numbers = builder.add(spread(builder.trunc(first, I32), WORDS), counting)
        flags = [
            bits(builder.icmp_signed("<", hashes, none)),
            bits(builder.icmp_signed("<", times, none)),
            builder.or_(falls[0], builder.shl(falls[1], ir.Constant(I64, 8))),
            bits(builder.icmp_unsigned(">=", links, numbers)),
        ]
        found = flags[0]
        for number in (1, 2, 3):
            found = builder.or_(found, builder.shl(flags[number], ir.Constant(I64, 16 * number)))
        wide = builder.zext(hashes, LONGS)
        product = builder.mul(wide, half(spread(multiplier, LONGS)))
        quotient = half(builder.lshr(product, spread(shift, LONGS)))
        slots = builder.sub(wide, builder.mul(quotient, half(spread(slot_count, LONGS))))
        base = builder.add(spread(point, LONGS), builder.shl(slots, splat(I64, 35, 16)))
        for place, values in ((0, numbers), (128, links)):
            term = builder.add(base, builder.shl(builder.zext(values, LONGS), splat(I64, 3, 16)))
            if place:
                empty = builder.icmp_unsigned("==", values, none)
                term = builder.select(empty, splat(I64, 8, 16), term)
            target = builder.inttoptr(builder.add(terms, ir.Constant(I64, place)), LONGS.as_pointer())
            builder.store(term, target, align=8)
        return found

    number = types.int64
    return number(number, number, number, types.UniTuple(number, 4), number), codegen
