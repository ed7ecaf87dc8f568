"""Numba, and the one way in which a kernel is compiled.

Every module that needs Numba or LLVM at its import takes them from here.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import stat
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.event import Listener, register
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from rocketfsck.progress import notice

# Compiled kernels on disk, one file for each function and signature.
#
#     SHA-256 of key and payload (32 bytes) | payload: a pickle of what Numba needs to load the machine code
#
# The key names the function, its signature and the processor; the file's own name carries a hash of it.
#
# The cache may never stop the tool. A file that is torn, changed, unreadable or somebody else's is as good as
# none: the kernel is compiled again and the file replaced. The checksum is verified before anything is
# unpickled, because machine code with a wrong byte would take the whole process down. A file is written under
# a name of its own and renamed when it is complete; one that cannot be written is done without.

_DIGEST_SIZE = hashlib.sha256().digest_size
_LARGEST = 64 << 20  # bytes; a kernel has some 50 KiB
_TRIED = frozenset({(0, 68)})
"""Versions of Numba whose code was seen to load without a refresh, which takes long (ADR 0013)."""


class KernelCache:
    """What a dispatcher of Numba asks for its code, in a directory for this very set of sources."""

    def __init__(self, function: Any, directory: Path) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self.cache_path = str(directory)
        self._directory = directory

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function, None where it must be compiled. Raises nothing."""
        try:
            _prepare(target_context)
            codegen = target_context.codegen()
            key = self._key(signature, codegen)
            payload = self._read(key)
            if payload is None:
                return None
            from numba.core.compiler import CompileResult

            return CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:  # noqa: BLE001  whatever is wrong with a cache, the answer is to compile
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled function, if it can be kept. Raises nothing."""
        try:
            if compiled.library.has_dynamic_globals or compiled.lifted:
                return
            from numba.core.serialize import dumps

            self._write(self._key(signature, compiled.library.codegen), dumps(compiled._reduce()))
        except Exception:  # noqa: BLE001  see above
            return

    def enable(self) -> None:
        """Part of what a dispatcher may ask; the cache is always on."""

    def disable(self) -> None:
        """Part of what a dispatcher may ask; the cache is always on."""

    def flush(self) -> None:
        """Part of what a dispatcher may ask; nothing is held back."""

    def _key(self, signature: Any, codegen: Any) -> bytes:
        return repr((self._name, str(signature), codegen.magic_tuple())).encode("utf-8", "surrogatepass")

    def _path(self, key: bytes) -> Path:
        return self._directory / f"{self._name.rpartition('.')[2]}-{hashlib.sha256(key).hexdigest()[:20]}.nbc"

    def _read(self, key: bytes) -> bytes | None:
        """The payload kept for a key. Raises OSError."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # neither a link nor a pipe
        with os.fdopen(os.open(self._path(key), flags), "rb") as file:
            found = os.fstat(file.fileno())
            mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o022
            if not stat.S_ISREG(found.st_mode) or not mine or found.st_size > _LARGEST:
                return None
            data = file.read(_LARGEST + 1)
        payload = data[_DIGEST_SIZE:]
        return payload if data[:_DIGEST_SIZE] == _digest(key, payload) else None

    def _write(self, key: bytes, payload: bytes) -> None:
        """Keep a payload under a key. Raises OSError."""
        path = self._path(key)
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=self._directory)
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(key, payload) + payload)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


def _prepare(target_context: Any) -> None:
    """Have what machine code calls; what else a refresh brings is for compiling, which begins with one."""
    if numba.version_info[:2] in _TRIED:
        rtsys.initialize(target_context)
    else:
        target_context.refresh()


def _digest(key: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(len(key).to_bytes(8, "big") + key + payload).digest()


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
