"""Numba, and the one way in which a kernel is compiled.

Every module that needs Numba or LLVM at its import takes them from here.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.event import Listener, register
from numba.extending import intrinsic

from rocketfsck.progress import notice
from rocketfsck.scan.machine.kernelcache import KernelCache

__all__ = ["intrinsic", "ir", "njit", "numba", "types", "unkept"]

unkept: list[str] = []
"""Names of kernels that this process compiled, and that no directory keeps."""

_ONCE = "compiling kernels, once (some seconds)"
_EVERY_TIME = "compiling kernels (some seconds; no directory keeps them)"


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


class _Compiling(Listener):
    """Numba reports each compilation here, and none where the cache has the code.

    Numba compiles in one thread at a time; what a kernel calls is compiled in the middle of it.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._depth = 0

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            dispatcher = event.data["dispatcher"]
            kept = isinstance(dispatcher._cache, KernelCache)
            if not kept:
                unkept.append(dispatcher.py_func.__name__)
            self._open.enter_context(notice(_ONCE if kept else _EVERY_TIME))

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        self._depth -= 1
        if not self._depth:
            self._open.close()


register("numba:compile", _Compiling())


def njit(function: Any, *, directory: Path | None = None, **options: Any) -> Any:
    """`numba.njit`; `directory` is where the compiled code is kept, None: it is not kept.

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
