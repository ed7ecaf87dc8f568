"""Where compiled kernels come from: the installed package, this user's cache, or Numba, once.

    package: built/kernels-PROCESSOR.so      made with the wheel: neither Numba nor LLVM is needed
    cache: kernels-KEY/SYMBOL.o              SHA-256 of what follows (32 bytes) | object code

A checkout has no built kernels. The first call of any of them compiles all, in processes of their own
(`scan.machine.ahead`), and keeps them in the cache, which LLVM loads from then on.

A kernel depends on all the helpers that it calls and on constants of `formats`, so the cache's own directory
has a hash of every source of both packages, of the compiler's version and of the processor in its name.

The cache may never stop the tool. A file that is torn, changed, unreadable or somebody else's is as good as
none: everything is compiled again. The checksum is verified before code is loaded, because machine code with
a wrong byte would take the whole process down.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from rocketfsck.common import outputs
from rocketfsck.common.budget import core_count
from rocketfsck.progress import notice

KERNELS = (
    "rocketfsck.scan.compiled.records:_scan",
    "rocketfsck.scan.compiled.index:replay",
    "rocketfsck.scan.compiled.index:first_difference",
    "rocketfsck.scan.compiled.index:entry_rows",
    "rocketfsck.scan.compiled.gather:put_together",
    "rocketfsck.scan.compiled.gather:_split",
    "rocketfsck.scan.compiled.gather:_hash_texts",
    "rocketfsck.scan.compiled.gather:_find_beyond_ascii",
    "rocketfsck.scan.compiled.units:meet_units",
    "rocketfsck.scan.compiled.units:unit_runs",
    "rocketfsck.scan.units:_link",
    "rocketfsck.scan.units:_place",
    "rocketfsck.scan.join.keyjoin:join_entry_rows",
    "rocketfsck.scan.synth.compiled:make_records",
)
"""All kernels. The first takes as long to compile as all others together."""
PACKAGES = ("rocketfsck.formats", "rocketfsck.scan")
"""What kernels are made of."""
BUILT = "built"
VARIABLE = "ROCKETFSCK_PROCESSOR"


@dataclass(frozen=True, slots=True)
class Processor:
    """A kind of processor: its machine, what Numba and LLVM call it, and what /proc/cpuinfo says of it."""

    machine: str
    triple: str
    numba: str
    llvm: str
    flags: frozenset[str] = frozenset()


_V2 = frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])
_V3 = _V2 | frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])
_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PROCESSORS = {
    "x86-64-v3": Processor("x86_64", _X86, "x86-64-v3", "x86-64-v3", _V3),
    "x86-64-v2": Processor("x86_64", _X86, "x86-64-v2", "x86-64-v2", _V2),
    "arm64": Processor("aarch64", _ARM, "generic", "generic"),
}
"""The best of a machine first."""


@cache
def processor() -> str | None:
    """The best kind of processor that this one is; ROCKETFSCK_PROCESSOR asks for a lesser one. None for
    machines that no kernels are made for."""
    flags = _flags()
    fits = [
        name
        for name, kind in PROCESSORS.items()
        if kind.machine == platform.machine() and sys.byteorder == "little" and kind.flags <= flags
    ]
    asked = os.environ.get(VARIABLE)
    return asked if asked in fits else next(iter(fits), None)


def _flags() -> frozenset[str]:
    with suppress(OSError), open("/proc/cpuinfo") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("flags"):
                return frozenset(line.split())
    return frozenset()


def library_name(processor_name: str) -> str:
    """The name of the library with all kernels for a kind of processor."""
    return f"kernels-{processor_name}.so"


def symbol_of(name: str) -> str:
    """The symbol of a kernel: `records_scan` of `rocketfsck.scan.compiled.records:_scan`."""
    module, _, function = name.partition(":")
    return f"{module.rpartition('.')[2]}_{function.lstrip('_')}"


unkept: list[str] = []
"""Kernels that this process compiled, and that no directory keeps."""
_lock = threading.RLock()
_loaded: list[Any] = []
"""What holds code that is in use: it must never go."""


@cache
def built() -> Path | None:
    """The library of kernels that came with the package for this processor."""
    name = processor()
    if name is None:
        return None
    place = resources.files("rocketfsck.scan.machine") / BUILT / library_name(name)
    if not place.is_file():
        return None
    held = ExitStack()  # an archive's file is copied out, and stays as long as its code is in use
    _loaded.append(held)
    return held.enter_context(resources.as_file(place))


@cache
def _addresses() -> dict[str, int]:
    """The address of each kernel, by its symbol."""
    library = built()
    if library is not None:
        loaded = ctypes.CDLL(os.fspath(library))
        _loaded.append(loaded)
        return {
            symbol_of(name): ctypes.cast(getattr(loaded, symbol_of(name)), ctypes.c_void_p).value or 0
            for name in KERNELS
        }
    return _linked(_objects())


def address_of(name: str) -> int:
    """The address of a kernel. Raises RuntimeError where it cannot be compiled."""
    with _lock:
        return _addresses()[symbol_of(name)]


def _linked(objects: dict[str, bytes]) -> dict[str, int]:
    """Object code at its place in memory: the address of each symbol."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
    for data in objects.values():
        engine.add_object_file(binding.ObjectFileRef.from_data(data))
    engine.finalize_object()
    _loaded.append(engine)
    return {symbol: engine.get_function_address(symbol) for symbol in objects}


def _objects() -> dict[str, bytes]:
    """The object code of all kernels, by symbol: kept, or compiled now."""
    directory = cache_directory()
    if directory is None:
        unkept.extend(symbol_of(name) for name in KERNELS)
        with tempfile.TemporaryDirectory(prefix="rocketfsck-kernels-") as place:
            return _compile(Path(place), "compiling kernels (some seconds; no directory keeps them)")
    kept = _kept(directory)
    if kept is None:
        with _alone(directory):
            kept = _kept(directory)
            if kept is None:
                with tempfile.TemporaryDirectory(prefix="part-", dir=directory) as place:
                    kept = _compile(Path(place), "compiling kernels, once (some seconds)")
                    _keep(directory, kept, Path(place))
    return kept


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One process at a time compiles into a directory; without locks, each does."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context((directory / "compiling").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(place: Path, text: str) -> dict[str, bytes]:
    """Compile all kernels, in two processes where two cores may be used. Raises RuntimeError."""
    name = processor()
    groups = [KERNELS[:1], KERNELS[1:]] if core_count() > 1 and len(KERNELS) > 1 else [KERNELS]
    command = [sys.executable, "-m", "rocketfsck.scan.machine.ahead", str(name), os.fspath(place)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with notice(text):
        running = [
            subprocess.Popen(
                [*command, *group], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL, text=True,
            )
            for group in groups
        ]  # fmt: skip
        try:
            said = [process.communicate()[1] for process in running]
        except BaseException:
            for process in running:
                process.kill()
                process.wait()
            raise
    if any(process.returncode for process in running):
        last = "".join(said).strip().rpartition("\n")[2]
        raise RuntimeError(f"kernels cannot be compiled: {last}; set ROCKETFSCK_KERNELS=plain to do without")
    return {symbol_of(name): (place / f"{symbol_of(name)}.o").read_bytes() for name in KERNELS}


def is_kept() -> bool:
    """Whether a cache has all kernels, by what it looks like from outside."""
    places = (root / _set_name() for root in cache_roots(make=False))
    return any(
        all(os.access(place / f"{symbol_of(name)}.o", os.R_OK) for name in KERNELS) for place in places
    )


def _kept(directory: Path) -> dict[str, bytes] | None:
    """All object code that a directory keeps; None if any is missing, or not as it was written."""
    found = {}
    for name in KERNELS:
        data = _read(directory / f"{symbol_of(name)}.o")
        if data is None:
            return None
        found[symbol_of(name)] = data
    return found


KEPT_COUNT = 8  # sets of compiled kernels that one user's cache keeps
_CACHE_NAME = re.compile("kernels-[0-9a-f]{20}")
_DIGEST_SIZE = hashlib.sha256().digest_size
_LARGEST = 16 << 20  # bytes; a kernel has some 50 KiB


def _read(path: Path) -> bytes | None:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # neither a link nor a pipe
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o022
            if not stat.S_ISREG(found.st_mode) or not mine or found.st_size > _LARGEST:
                return None
            data = file.read(_LARGEST + 1)
    except OSError:
        return None
    payload = data[_DIGEST_SIZE:]
    return payload if payload and data[:_DIGEST_SIZE] == _digest(path.name, payload) else None


def _keep(directory: Path, objects: dict[str, bytes], place: Path) -> None:
    """Keep object code, each file complete or not at all; what cannot be kept is done without."""
    with suppress(OSError):
        for symbol, data in objects.items():
            part = place / f"{symbol}.kept"
            part.touch(0o600)
            part.write_bytes(_digest(f"{symbol}.o", data) + data)
            part.replace(directory / f"{symbol}.o")


def _digest(name: str, payload: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def _sources(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    """Path and content of every module in a folder, wherever it lies: the package may be in an archive."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            for path, content in _sources(item):
                yield f"{item.name}/{path}", content
        elif item.name.endswith(".py"):
            yield item.name, item.read_bytes()


@cache
def content_key() -> str:
    """A hash of all that the code of kernels depends on."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for name, content in _sources(resources.files(package)):
            digest.update(f"{package}/{name}\0{len(content)}\0".encode() + content)
    versions = [str(processor()), os.environ.get("NUMBA_BOUNDSCHECK", "")]
    for name in ("numba", "llvmlite", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            versions.append(metadata.version(name))
    digest.update("\0".join(versions).encode())
    return digest.hexdigest()[:20]


@cache
def cache_directory() -> Path | None:
    """Where this user's compiled kernels are kept, None where nothing can or should be kept.

    A directory for this very set of kernels, below the first of `cache_roots` that will do.
    """
    places = (_usable(root / _set_name()) for root in cache_roots(make=True))
    return next((place for place in places if place is not None), None)


def _set_name() -> str:
    return f"kernels-{content_key()}"


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
