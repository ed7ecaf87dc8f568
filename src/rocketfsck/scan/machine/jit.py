"""Whether compiled kernels are wanted, and how they are compiled: lazily, once per user, machine and version.

Numba is imported (`scan.machine.compiler`) when a module with kernels is imported only; whoever wants kernels
asks `compiled_wanted` first and imports that module after it.

A kernel depends on all the helpers that it calls and on constants of `formats`, so the directory's own name
carries a hash of every source in both packages and of the versions. A cache holds code: a directory that
somebody else could write to is not used, and one that cannot be written to is done without
(`scan.machine.compiler` has the files).

CRC-32 (zlib's; reference 2.6) for kernels: a C function of an installed library, called by its address.

isal's is quicker than zlib's; both take `(start, pointer, size)` and give the same numbers. `chosen` tests a
function before it gives it out. Compiled code that is cached holds no symbol that could be missing.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from rocketfsck.common import outputs
from rocketfsck.common.budget import current
from rocketfsck.errors import UsageError

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


COMPILED_FROM = 12 << 20  # bytes; below, plain Python is done before the compiled code is loaded
COMPILED_COLD_FROM = 96 << 20  # the same where it must first be compiled
KERNEL_PACKAGES = ("rocketfsck.formats", "rocketfsck.scan")
IN_USE = threading.Event()
"""Set once `auto` chose compiled kernels in this process: from then on small work is quicker by them, too."""
KEPT_COUNT = 8  # sets of compiled kernels that one user's cache keeps
_CACHE_NAME = re.compile("kernels-[0-9a-f]{20}")

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
    """Whether this user has compiled kernels before, by what the cache looks like from outside."""
    for root in cache_roots(make=False):
        try:
            if next(root.glob("kernels-*/*"), None) is not None:
                return True
        except OSError:
            continue
    return False


def _can_compile() -> bool:
    return sys.byteorder == "little" and _numba_is_there() and chosen() is not None


@cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None


def entry(function: Function) -> Function:
    """A kernel that Python calls: compiled at its first call, kept in the cache, runs without the GIL."""
    return _entry(function, nogil=True)


def short_entry(function: Function) -> Function:
    """An `entry` so short that giving up the GIL, and waiting for it again, would be its longest part."""
    return _entry(function, nogil=False)


def _entry(function: Function, *, nogil: bool) -> Function:
    from rocketfsck.scan.machine.compiler import njit

    return njit(function, directory=cache_directory(), nogil=nogil)  # type: ignore[no-any-return]


def helper(function: Function) -> Function:
    """A function that only kernels call."""
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """A helper that becomes part of every kernel that calls it: for small ones on the quick way."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, *, forceinline: bool) -> Function:
    from rocketfsck.scan.machine.compiler import njit

    # without the two wrappers, which only Python and C would call: less to compile
    options: dict[str, Any] = {
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "forceinline": forceinline,
    }
    return njit(function, nogil=True, **options)  # type: ignore[no-any-return]


@cache
def in_form(function: Function, compiled: bool) -> Function:
    """A function written in the part of Python that Numba compiles too: an `entry`, or as it is."""
    return entry(function) if compiled else function


@cache
def cache_directory() -> Path | None:
    """Where this user's compiled kernels are kept, None where nothing can or should be kept.

    A directory for this very set of kernels, below the first of `cache_roots` that will do.
    """
    name = f"kernels-{_content_key()}"
    return next(
        (found for root in cache_roots(make=True) if (found := _usable(root / name)) is not None), None
    )


def _usable(directory: Path) -> Path | None:
    """The directory, which is made if need be; None where it cannot be used, or others can write to it."""
    try:
        if not directory.is_dir():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _forget_old(directory.parent)
        found = directory.stat()
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            return None
        return directory if os.access(directory, os.W_OK | os.X_OK) else None
    except OSError:
        return None


def _forget_old(root: Path) -> None:
    """Keep the newest sets of kernels only: every version and processor leaves one behind."""
    kept = [path for path in root.glob("kernels-*") if _CACHE_NAME.fullmatch(path.name)]
    kept.sort(key=lambda path: path.stat().st_mtime)
    for path in kept[:-KEPT_COUNT]:
        shutil.rmtree(path, ignore_errors=True)


def cache_roots(*, make: bool) -> Iterator[Path]:
    """The places for a cache, best first; ROCKETFSCK_CACHE_DIR alone, where it names one.

    $NUMBA_CACHE_DIR/rocketfsck, the user's cache (`common.outputs`), and rocketfsck-UID in the system's
    directory for temporary files. Anybody could make that last one, so it counts only where it is a
    directory, this user's own, that nobody else may look into; `make` says whether to make it.
    """
    usual = outputs.cache_directory()
    if os.environ.get(outputs.VARIABLE):
        assert usual is not None
        yield usual
        return
    if base := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(base) / "rocketfsck"
    if usual is not None:
        yield usual
    with suppress(RuntimeError):  # no home directory
        if (home := Path.home() / ".cache" / "rocketfsck") != usual:
            yield home
    own = Path(tempfile.gettempdir()) / f"rocketfsck-{os.geteuid()}"
    try:
        if make:
            with suppress(FileExistsError):
                own.mkdir(mode=0o700)
        found = own.lstat()
    except OSError:
        return
    mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    if stat.S_ISDIR(found.st_mode) and mine:
        yield own


def _sources(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    """Path and content of every module in a folder, wherever it lies: the package may be in an archive."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            for path, content in _sources(item):
                yield f"{item.name}/{path}", content
        elif item.name.endswith(".py"):
            yield item.name, item.read_bytes()


def _content_key() -> str:
    import llvmlite
    import numpy as np

    from rocketfsck.scan.machine.compiler import numba

    digest = hashlib.sha256()
    for package in KERNEL_PACKAGES:
        for name, content in _sources(resources.files(package)):
            digest.update(f"{package}/{name}\0{len(content)}\0".encode() + content)
    versions = (
        sys.version,
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        str(numba.config.BOUNDSCHECK),
    )
    digest.update("\0".join(versions).encode())
    return digest.hexdigest()[:20]
