"""Numba, started with what kernels need of it: half of what an ordinary start of it takes.

Every module that needs Numba or LLVM at its import takes them from here. What is left out:

- `coverage`, which Numba imports, where it is installed, for reports that nobody asked for;
- the implementations of all of Python and NumPy that code can be compiled from: they are loaded when
  something must be compiled. A kernel from the cache is machine code already, and needs no more than the
  addresses of the runtime's functions (the dispatcher's own way loads everything first).

The second is done with the insides of Numba, so only with versions that it was tried with.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

_collecting = gc.isenabled()
_hidden = "coverage" not in sys.modules
gc.disable()  # imports make many objects and no garbage
if _hidden:
    sys.modules["coverage"] = None  # type: ignore[assignment]
try:
    import numba
    from llvmlite import binding, ir
    from numba import types
    from numba.core.caching import FunctionCache
    from numba.core.runtime import _nrt_python as runtime
    from numba.extending import intrinsic
finally:
    if _hidden:
        del sys.modules["coverage"]
    if _collecting:
        gc.enable()

__all__ = ["binding", "intrinsic", "ir", "njit", "numba", "types"]

TRIED_VERSIONS = frozenset({(0, 68)})


class _KernelCache(FunctionCache):
    """A cache whose kernels are loaded without what compiling needs."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is not None:
                return found
        target_context.refresh()
        return None


def njit(function: Any, *, cache: bool = False, **options: Any) -> Any:
    """`numba.njit`; `cache` says whether to keep the code in `numba.config.CACHE_DIR`."""
    compiled = numba.njit(cache=cache, error_model="numpy", **options)(function)
    if cache and numba.version_info[:2] in TRIED_VERSIONS:
        _name_runtime_functions()
        compiled._cache = _KernelCache(function)
    return compiled


def _name_runtime_functions() -> None:
    """Tell LLVM where the functions are that cached code calls, as `rtsys.initialize` does."""
    if binding.address_of_symbol("NRT_adapt_ndarray_from_python") is None:
        for name, address in runtime.c_helpers.items():
            binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
