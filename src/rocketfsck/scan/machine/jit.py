"""Whether compiled kernels are wanted, and what they are: functions that `scan.machine.library` has code of.

Whoever wants kernels asks `compiled_wanted` first. Modules with kernels import nothing heavy: an `entry`
looks for its code at its first call.

CRC-32 (zlib's; reference 2.6) for kernels: a C function of an installed library, called by its address.

isal's is quicker than zlib's; both take `(start, pointer, size)` and give the same numbers. `chosen` tests a
function before it gives it out. Compiled code that is cached holds no symbol that could be missing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from rocketfsck.common.budget import current
from rocketfsck.errors import UsageError
from rocketfsck.scan.machine import frames
from rocketfsck.scan.machine.frames import call, signature_of

LIBRARIES = {"isal": ("isal.isal_zlib", "crc32_gzip_refl"), "zlib": ("zlib", "crc32_z")}
"""Who has such a function: the module that comes with the library, and the symbol; the quickest first."""

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
_TESTED_SIZES = (0, 1, 3, 15, 16, 17, 63, 64, 65, 128, 191, 256, 1027, 2200)
_loaded: list[Any] = []


def find_crc(name: str) -> int:
    """The address of the library's function, 0 where there is none."""
    module, symbol = LIBRARIES[name]
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
        _loaded.append(function)  # the library stays loaded as long as its address is in use
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def is_right(address: int) -> bool:
    """Whether the function at an address gives what zlib gives, for sizes and places of every kind."""
    function = _SIGNATURE(address)
    text = bytes((7 * n + (n >> 3)) & 0xFF for n in range(2304))
    start = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
    return all(
        function(0, start + at, size) == zlib.crc32(text[at : at + size])
        for at in (0, 1, 63, 64)
        for size in _TESTED_SIZES
    )


@cache
def chosen() -> int | None:
    """The address that kernels are given; ROCKETFSCK_CRC (`isal`, `zlib`) asks for one by name.

    None where no function works: then no kernel that needs a CRC may run.
    """
    asked = os.environ.get("ROCKETFSCK_CRC") or "auto"
    for name in ([asked] if asked in LIBRARIES else []) + list(LIBRARIES):
        address = find_crc(name)
        if address and is_right(address):
            return address
    return None


COMPILED_FROM = 1 << 20  # bytes; below, plain Python is done before the compiled code is loaded
COMPILED_COLD_FROM = 96 << 20  # the same where it must first be compiled
IN_USE = threading.Event()
"""Set once `auto` chose compiled kernels in this process: from then on small work is quicker by them, too."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_wanted(total_bytes: int = 0) -> bool:
    """Whether work on `total_bytes` bytes is quicker compiled than in plain Python.

    What was decided for the whole that these bytes are a part of (`common.budget`) comes first, then the
    environment variable ROCKETFSCK_KERNELS (`plain`, `compiled` or `auto`), then Numba's own
    NUMBA_DISABLE_JIT, which asks for Python. A process that has chosen kernels once stays with them. Raises
    UsageError for another value of the first variable.
    """
    decided = current().compiled
    if decided is not None:
        return decided
    mode = mode_of("ROCKETFSCK_KERNELS", "plain", "compiled")
    if mode == "auto":
        if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
            return False
        if not IN_USE.is_set():
            least = COMPILED_FROM if total_bytes < COMPILED_FROM or _is_warm() else COMPILED_COLD_FROM
            if total_bytes >= least and _can_compile():
                IN_USE.set()
        return IN_USE.is_set()
    return mode == "compiled"


def mode_of(variable: str, *others: str) -> str:
    """What an environment variable says: `auto`, also where it says nothing, or one of the others.

    Raises UsageError for another value.
    """
    mode = os.environ.get(variable) or "auto"
    if mode not in (*others, "auto"):
        raise UsageError(f"{variable} is {mode!r}; possible values are {', '.join(others)} and auto")
    return mode


@cache
def _is_warm() -> bool:
    """Whether there is code of these very kernels: with the package, or in this user's cache."""
    from rocketfsck.scan.machine.library import built, is_kept

    return built() is not None or is_kept()


def _can_compile() -> bool:
    from rocketfsck.scan.machine.library import built, processor

    has_code = processor() is not None and (built() is not None or _numba_is_there())
    return has_code and chosen() is not None


@cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None


class Kernel:
    """A function that Python calls and that runs compiled, without the GIL. Use `entry`, or `in_form`."""

    __slots__ = ("_address", "function", "name")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self._address = 0

    def __call__(self, *arguments: Any) -> Any:
        if not self._address:
            from rocketfsck.scan.machine.library import address_of

            self._address = address_of(self.name)
        return call(self._address, signature_of(self.function), arguments)


def entry(function: Function) -> Function:
    """A kernel that Python calls. The annotations say what it takes (`scan.machine.frames`)."""
    return cast(Function, Kernel(function))


def helper(function: Function) -> Function:
    """A function that only kernels call."""
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """A helper that becomes part of every kernel that calls it: for small ones on the quick way."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, *, forceinline: bool) -> Function:
    if not frames.COMPILING:
        return function
    from rocketfsck.scan.machine.compiler import njit

    # without the two wrappers, which only Python and C would call: less to compile
    wrapped = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=forceinline)
    return cast(Function, wrapped)


@cache
def in_form(function: Function, compiled: bool) -> Function:
    """A function written in the part of Python that Numba compiles too: an `entry`, or as it is."""
    return entry(function) if compiled else function
