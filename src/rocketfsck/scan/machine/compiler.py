"""Numba, and the one way in which a kernel is compiled.

Every module that needs Numba or LLVM at its import takes them from here.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rocketfsck.scan.machine.kernelcache import KernelCache

__all__ = ["intrinsic", "ir", "njit", "numba", "types"]


def import_parsed(name: str) -> None:
    """Import a module that parses source code when it is imported.

    Numba imports numpy.ma when it first sees an array, in whatever thread that is. CPython 3.11 counts the
    depth of a syntax tree for all threads in one place, so that parsing in two of them at once raises
    SystemError ("AST constructor recursion depth mismatch"). Here no kernel runs yet; what happens all the
    same is tried once more.
    """
    try:
        importlib.import_module(name)
    except SystemError:
        importlib.import_module(name)


import_parsed("numpy.ma")


def njit(function: Any, *, directory: Path | None = None, **options: Any) -> Any:
    """`numba.njit`; `directory` is where the compiled code is kept, None: nowhere.

    Whoever imports a kernel has asked for compiled ones (`jit.compiled_wanted`), so Numba's own switch to
    run functions as Python, which kernels full of LLVM's instructions cannot, is not heeded here.
    """
    disabled = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = 0
    try:
        compiled = numba.njit(error_model="numpy", **options)(function)
    finally:
        numba.config.DISABLE_JIT = disabled
    if directory is not None:
        with suppress(AttributeError):  # a Numba that takes no cache compiles each time
            compiled._cache = KernelCache(function, directory)
    return compiled
