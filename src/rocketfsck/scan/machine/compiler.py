"""Numba and LLVM for modules with kernels: what they are where kernels are compiled, and names without a
meaning everywhere else, where the same modules are imported for the sake of what calls the kernels.

Kernels are compiled by `scan.machine.ahead`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketfsck.scan.machine import frames

__all__ = ["intrinsic", "ir", "njit", "pointer", "types"]

if frames.COMPILING:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic
else:
    ir = types = None

    def intrinsic(function: Callable[..., Any]) -> Any:
        """Numba's decorator for functions that write LLVM's instructions."""
        return function


def njit(function: Any, **options: Any) -> Any:
    """`numba.njit`, as all kernels and their helpers have it."""
    return numba.njit(error_model="numpy", nogil=True, **options)(function)


@intrinsic
def pointer(typingctx: Any, address: Any, dtype: Any) -> Any:  # noqa: ARG001
    """An address as a pointer to elements of a NumPy type."""
    kind = types.CPointer(dtype.dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, dtype), codegen
