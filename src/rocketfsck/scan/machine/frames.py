"""How Python calls a kernel: by a frame of 64-bit numbers, in which everything has its place.

    frame := result result error error argument…        int64 each
    argument := number | address of an array, its lengths | the fields of a NamedTuple, one after the other

The annotations of a kernel's function say what it takes: int, bool, np.uint64, arrays by the names of
`formats.dtypes` (`Annotated[Words, 2]` has two dimensions), a NamedTuple of these; and gives: None, int, bool
or two ints. From them come the packing here and the function around the kernel that takes it apart
(`source_of`), which Numba compiles with it (`scan.machine.ahead`). Arrays are C-contiguous, and not copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np

COMPILING = False
"""Whether this process compiles kernels (`scan.machine.ahead`): only there helpers are Numba's."""

OUT, ERROR, FIRST = 2, 3, 4
"""Places in a frame, after two results: what the kernel's own code gives back, its error, an argument."""

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, passed as 64 bits: "int64", "bool" or "uint64"."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """An array of a NumPy type, with so many dimensions."""

    dtype: Any
    dimensions: int


@dataclass(frozen=True, slots=True)
class Fields:
    """A NamedTuple."""

    made: type
    kinds: tuple[Kind, ...]


Kind = Number | ArrayKind | Fields
_NUMBERS: dict[Any, Number] = {int: Number("int64"), bool: Number("bool"), np.uint64: Number("uint64")}


def kind_of(annotation: Any) -> Kind:
    """What an annotation says of an argument. Raises TypeError for one that no frame can hold."""
    if annotation in _NUMBERS:
        return _NUMBERS[annotation]
    dimensions = 1
    if get_origin(annotation) is Annotated:
        annotation, dimensions = get_args(annotation)
    alias = getattr(get_origin(annotation), "__value__", None)  # NDArray of NumPy 2.5, from Python 3.12 on
    if alias is not None:
        annotation = alias[get_args(annotation)]
    if get_origin(annotation) is np.ndarray:
        return ArrayKind(np.dtype(get_args(get_args(annotation)[1])[0]), dimensions)
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        return Fields(annotation, tuple(kind_of(hints[name]) for name in annotation._fields))
    raise TypeError(f"a kernel cannot be given {annotation!r}")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes, and how many numbers it gives; `gives_bool`: the one is a bool."""

    kinds: tuple[Kind, ...]
    result_count: int
    gives_bool: bool


@cache
def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of a kernel's function, by its annotations. Raises TypeError."""
    hints = get_type_hints(function, include_extras=True)
    given = hints.pop("return")
    count = 0 if given in (None, type(None)) else max(len(get_args(given)), 1)
    return Signature(tuple(map(kind_of, hints.values())), count, given is bool)


def _flat(kind: Kind, value: Any) -> Iterator[int]:
    if isinstance(kind, Number):
        yield int(value)
    elif isinstance(kind, Fields):
        for inner, field in zip(kind.kinds, value, strict=True):
            yield from _flat(inner, field)
    else:
        if value.dtype != kind.dtype or value.ndim != kind.dimensions or not value.flags.c_contiguous:
            raise TypeError(
                f"a kernel takes a contiguous array of {kind.dtype} with {kind.dimensions} dimensions, "
                f"not one of {value.dtype} with {value.ndim}"
            )
        yield value.__array_interface__["data"][0]
        yield from value.shape


def call(address: int, signature: Signature, arguments: Sequence[Any]) -> Any:
    """Run the kernel at an address, without the GIL.

    Raises TypeError for arrays of another kind than the kernel's, RuntimeError where it gives up.
    """
    values = [0, 0, 0, 0]
    for kind, argument in zip(signature.kinds, arguments, strict=True):
        values.extend(_flat(kind, argument))
    frame = (ctypes.c_int64 * len(values))(*values)
    place = ctypes.addressof(frame)
    status = _PROTOTYPE(address)(place + 8 * OUT, place + 8 * ERROR, place)
    if status:
        raise RuntimeError(f"a kernel failed with status {status}")
    if signature.result_count == 1:
        return bool(frame[0]) if signature.gives_bool else frame[0]
    return tuple(frame[: signature.result_count]) if signature.result_count else None


def source_of(signature: Signature) -> tuple[str, dict[str, Any]]:
    """The function `framed(frame)` around a `kernel`, and the types that its source names."""
    names: dict[str, Any] = {}
    place = FIRST

    def taken(kind: Kind) -> str:
        nonlocal place
        if isinstance(kind, Fields):
            name = f"T{len(names)}"
            names[name] = kind.made
            return f"{name}({', '.join(taken(inner) for inner in kind.kinds)})"
        here = place
        if isinstance(kind, Number):
            place += 1
            text = f"slots[{here}]"
            return {"int64": text, "bool": f"{text} != 0", "uint64": f"np.uint64({text})"}[kind.name]
        place += 1 + kind.dimensions
        name = f"T{len(names)}"
        names[name] = kind.dtype.type
        lengths = ", ".join(f"slots[{here + 1 + number}]" for number in range(kind.dimensions))
        return f"carray(pointer(slots[{here}], {name}), ({lengths},))"

    arguments = ", ".join(map(taken, signature.kinds))
    given = {0: "", 1: "slots[0] = given", 2: "slots[0], slots[1] = given"}[signature.result_count]
    lines = [
        "def framed(frame):",
        f"    slots = carray(pointer(frame, np.int64), ({place},))",
        f"    given = kernel({arguments})" if given else f"    kernel({arguments})",
        *([f"    {given}"] if given else []),
        "    return 0",
    ]
    return "\n".join(lines) + "\n", names
