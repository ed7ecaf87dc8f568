"""One change of a store, as data that can be printed, replayed and made smaller."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError
from rocketfsck.formats.config import decode_config

HOLE_SIZE = 1 << 40
MAX_WHOLE = 1 << 22
"""Files up to this size are changed in memory; of larger ones only what is named."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`kind` is a name of `KINDS`; `file` is relative to the store; `label` is the field that is meant, if
    any."""

    kind: str
    file: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.kind} {self.file} {self.label} {shown}".replace("  ", " ").strip()


def apply_mutation(root: Path, mutation: Mutation) -> bool:
    """Change the store; False where an earlier change took away what this one is about."""
    path = root / mutation.file
    try:
        return bool(KINDS[mutation.kind](root, path, **mutation.arguments))
    except (OSError, FormatError, ValueError, KeyError, IndexError, TypeError):
        return False


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _set(_root: Path, path: Path, pos: int, data: str) -> bool:
    """Bytes (hex) at a position."""
    if not _is_plain(path):
        return False
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(bytes.fromhex(data))
    return True


def _write(_root: Path, path: Path, data: str) -> bool:
    """The whole content (hex) of a file, which may be new."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes.fromhex(data))
    return True


def _create(_root: Path, path: Path, size: int, seed: int) -> bool:
    """A new file of random bytes."""
    return _write(_root, path, random.Random(seed).randbytes(size).hex())


def _truncate(_root: Path, path: Path, size: int) -> bool:
    """Another length: shorter, or longer by a hole."""
    if not _is_plain(path):
        return False
    os.truncate(path, size)
    return True


def _extend(_root: Path, path: Path, size: int, seed: int) -> bool:
    """So many random bytes behind the end."""
    if not _is_plain(path):
        return False
    with path.open("ab") as file:
        file.write(random.Random(seed).randbytes(size))
    return True


def _noise(_root: Path, path: Path, start: int, end: int, seed: int) -> bool:
    """Random bytes in the place of a range."""
    if not _is_plain(path):
        return False
    return _set(_root, path, start, random.Random(seed).randbytes(end - start).hex())


def _copy_bytes(_root: Path, path: Path, source: int, target: int, size: int) -> bool:
    """A range over another one of the same file."""
    if not _is_plain(path):
        return False
    with path.open("rb") as file:
        file.seek(source)
        data = file.read(size)
    return _set(_root, path, target, data.hex())


def _swap_bytes(_root: Path, path: Path, first: int, second: int, size: int) -> bool:
    """Two ranges of one file change places."""
    if not _is_plain(path):
        return False
    with path.open("rb") as file:
        file.seek(first)
        one = file.read(size)
        file.seek(second)
        other = file.read(size)
    return _set(_root, path, first, other.hex()) and _set(_root, path, second, one.hex())


def _shift(_root: Path, path: Path, pos: int, size: int) -> bool:
    """Insert (or, below zero, drop) bytes and keep the length."""
    if not _is_plain(path) or path.stat().st_size > MAX_WHOLE:
        return False
    data = path.read_bytes()
    moved = data[:pos] + (bytes(size) + data[pos:] if size > 0 else data[pos - size :])
    path.write_bytes((moved + bytes(max(-size, 0)))[: len(data)])
    return True


def _remove(_root: Path, path: Path) -> bool:
    """A file or a whole directory goes."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    return True


def _rename(root: Path, path: Path, name: str) -> bool:
    """Another name; `name` is relative to the store."""
    target = root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    return True


def _double(root: Path, path: Path, name: str) -> bool:
    """A second copy under another name, relative to the store."""
    target = root / name
    if os.path.lexists(target) or not (path.is_dir() or path.is_file()):
        return False
    if target.is_relative_to(path.resolve()):  # a copy within itself would never end
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, symlinks=True, copy_function=_copy_file)
    else:
        copy_sparse(path, target)
    return True


def _swap(root: Path, path: Path, other: str) -> bool:
    """Two files or directories change names."""
    beside = path.with_name(path.name + ".swapping")
    second = root / other
    if not os.path.lexists(second) or path.is_relative_to(second) or second.is_relative_to(path):
        return False
    path.rename(beside)
    second.rename(path)
    beside.rename(second)
    return True


def _link(root: Path, path: Path, target: str, keep: bool = False) -> bool:
    """A symbolic link in the place of a file or directory; with `keep` that goes beside the store.

    `target` is used as it is; `@` stands for the store's own path, `@@` for the place of what was kept.
    """
    kept = root.parent / "kept" / path.name
    if keep:
        kept.parent.mkdir(exist_ok=True)
        path.rename(kept)
    elif os.path.lexists(path):
        _remove(root, path)
    path.symlink_to(target.replace("@@", str(kept)).replace("@", str(root)))
    return True


def _hard_link(root: Path, path: Path, other: str) -> bool:
    """The file becomes one with another."""
    if path == root / other or not _is_plain(root / other):
        return False
    path.unlink()
    path.hardlink_to(root / other)
    return True


def _fifo(root: Path, path: Path) -> bool:
    """A FIFO in the place of a file or directory, or a new one."""
    if os.path.lexists(path):
        _remove(root, path)
    os.mkfifo(path)
    return True


def _to_directory(root: Path, path: Path, inside: str = "") -> bool:
    """A directory in the place of a file, or a new one; with a file in it."""
    if os.path.lexists(path):
        _remove(root, path)
    path.mkdir(parents=True)
    if inside:
        (path / inside).write_bytes(b"x" * 40)
    return True


def _to_file(_root: Path, path: Path, data: str = "") -> bool:
    """A file in the place of a directory."""
    if not path.is_dir() or path.is_symlink():
        return False
    shutil.rmtree(path)
    path.write_bytes(bytes.fromhex(data))
    return True


def _times(_root: Path, path: Path, mtime_ns: int) -> bool:
    """Another time of modification."""
    os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
    return True


def _json(_root: Path, path: Path, place: list[Any], value: Any, drop: bool = False) -> bool:
    """A value in a JSON document, by its place from the top."""
    if not _is_plain(path) or path.stat().st_size > MAX_WHOLE:
        return False
    document = put_in(decode_config(path.read_bytes()), place, value, drop=drop)
    path.write_text(json.dumps(document))
    return True


def put_in(document: Any, place: list[Any], value: Any, *, drop: bool) -> Any:
    """The document with another value at a place, or without what is there."""
    if not place:
        return value
    holder = document
    for step in place[:-1]:
        holder = holder[step]
    if drop:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return document


KINDS: Mapping[str, Callable[..., bool]] = {
    "set": _set,
    "write": _write,
    "create": _create,
    "truncate": _truncate,
    "extend": _extend,
    "noise": _noise,
    "copy-bytes": _copy_bytes,
    "swap-bytes": _swap_bytes,
    "shift": _shift,
    "remove": _remove,
    "rename": _rename,
    "double": _double,
    "swap": _swap,
    "link": _link,
    "hard-link": _hard_link,
    "fifo": _fifo,
    "to-directory": _to_directory,
    "to-file": _to_file,
    "times": _times,
    "json": _json,
}


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without filling its holes, with its time."""
    status = source.stat()
    with source.open("rb") as old, target.open("wb") as new:
        new.truncate(status.st_size)
        pos = 0
        while pos < status.st_size:
            try:
                start = os.lseek(old.fileno(), pos, os.SEEK_DATA)
            except OSError:  # a hole up to the end
                break
            pos = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            os.sendfile(new.fileno(), old.fileno(), start, pos - start) if new.seek(start) == start else None
    target.chmod(status.st_mode & 0o7777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(source: str, target: str) -> None:
    if Path(source).is_file():
        copy_sparse(Path(source), Path(target))


def copy_store(source: Path, target: Path) -> None:
    """Copy a sound store: directories, files with their holes and times."""
    for folder, _, names in os.walk(source):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True)
        for name in names:
            copy_sparse(Path(folder) / name, place / name)
    for folder, _, _ in os.walk(source, topdown=False):
        status = Path(folder).stat()
        os.utime(target / Path(folder).relative_to(source), ns=(status.st_atime_ns, status.st_mtime_ns))
