"""Symbolic links in a store, and what must not be changed because of them.

Brokers follow links. A repair that moved or rewrote what a link leads to would change two files where it
means one, and one that moved the link would take the file away. So neither is done: see `pins_of`. A link to
another place, a second disk as a rule, is simply where the files are. A link without a target is only a name,
but one that leads back to itself cannot even be looked through: it stays, too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from rocketfsck.repair.area.following import is_followed
from rocketfsck.verify.rules.catalog import printable

_MAX_DEPTH = 64


def pins_of(root: str, outside: Sequence[str] = ()) -> dict[str, str]:
    """Names that no repair changes because of a link in the store, and why, in words; raises OSError.

    Names are relative to the root, those in directories outside of it full paths, as in a plan.
    """
    places = {"": os.path.realpath(root), **{path: os.path.realpath(path) for path in outside}}
    pins: dict[str, str] = {}
    for base, place in places.items():
        for name, path in _links(place, base, 0):
            if _is_circle(path):
                pins[name] = "is a symbolic link that leads back to itself: a repair leaves links alone"
                continue
            real = os.path.realpath(path)
            if not os.path.exists(real) or is_followed(path, name, places.values()):  # noqa: PTH110
                continue
            text = printable(os.readlink(path))  # noqa: PTH115
            pins[name] = f"is a symbolic link to {text}: a repair leaves links alone"
            target = _name_of(real, places)
            if target:
                why = f"must stay as it is: the symbolic link {printable(name)} leads here"
                pins.setdefault(target, why)
    return pins


def dead_link_above(root: str, name: str) -> str:
    """The link without a target that has the name of a directory above something in a store; "" without one.

    Nothing can be made below it.
    """
    if name.startswith("/"):
        return ""
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        path = f"{root}/{above}"
        if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
            return above
    return ""


def _is_circle(path: str) -> bool:
    """Whether a link leads to itself, maybe by way of others."""
    try:
        os.stat(path)  # noqa: PTH116 - names may be any bytes
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def pin_on(file: str, pins: dict[str, str]) -> str:
    """Why a file or directory must not be changed: its own pin, or one above or below it; "" if it may be."""
    for name, why in pins.items():
        if f"{file}/".startswith(f"{name}/") or name.startswith(f"{file}/"):
            return why if name == file else f"{printable(name)} {why}"
    return ""


def _name_of(real: str, places: dict[str, str]) -> str:
    """The store's name of a real path, "" where it has none."""
    for base, place in places.items():
        if real.startswith(f"{place}/"):
            inner = real[len(place) + 1 :]
            return f"{base}/{inner}" if base else inner
    return ""


def _links(directory: str, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Names and paths of the links below a directory. None is followed; nor is anything to be changed in a
    directory that cannot be listed."""
    if depth > _MAX_DEPTH:
        return
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in listed:
        inner = f"{name}/{entry.name}" if name else entry.name
        if entry.is_symlink():
            yield inner, entry.path
        elif entry.is_dir():
            yield from _links(entry.path, inner, depth + 1)
