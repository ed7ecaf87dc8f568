"""Where something may be written: directories that are held by a handle, and names below them.

Everything that this package creates, opens for writing, renames or removes is a `ConfinedPlace`: a `Root`,
which is an open directory, and a name below it. A place is reached from the handle on, part by part, and no
part may be a symbolic link. So nothing that a plan, a journal, a record or a link in a store says leads to
another directory than those that were opened as roots, also if directories are replaced by links meanwhile.

Whose a file is and who may use it: owner, group, permissions, ACLs and other extended attributes.

A copy of a file has them all, as far as the system lets us; `lost_traits` says what it has not. POSIX ACLs
are the extended attributes `system.posix_acl_access` and, of directories, `system.posix_acl_default`.
"""

from __future__ import annotations

import os
import pwd
import stat
import struct
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from rocketfsck.errors import UsageError
from rocketfsck.store.reading import Closing

ACCESS_ACL = "system.posix_acl_access"
DEFAULT_ACL = "system.posix_acl_default"
_LABELS = ("system.", "security.")
"""Attributes that say who may use a file; others (`user.`) are about this one file's content."""

_ACL_HEAD, _ACL_ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_ACL_USER_OBJ, _ACL_USER, _ACL_GROUP_OBJ, _ACL_MASK, _ACL_OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_ACL_WRITE = 2


@dataclass(frozen=True, slots=True)
class Traits:
    """Owner, group, permission bits and extended attributes of a file or directory."""

    user: int
    group: int
    mode: int
    attributes: Mapping[str, bytes]

    def for_new_file(self) -> Traits:
        """What another file next to it gets: all but the attributes that are about its content."""
        kept = {name: value for name, value in self.attributes.items() if name.startswith(_LABELS)}
        return replace(self, attributes=kept)


def traits_of(file: int | str) -> Traits:
    """The traits of an open file, or of the one at a path (links are followed); raises OSError."""
    status = os.stat(file)  # noqa: PTH116
    attributes = {}
    for name in _attribute_names(file):
        with suppress(OSError):  # gone meanwhile, or not for us to read
            attributes[name] = os.getxattr(file, name)
    return Traits(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), attributes)


def _attribute_names(file: int | str) -> list[str]:
    try:
        return sorted(os.listxattr(file))
    except (OSError, AttributeError):  # a file system, or a system, without them
        return []


def give_traits(descriptor: int, wanted: Traits) -> None:
    """Give an open file these traits, as far as we may: `lost_traits` says what was not possible."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (wanted.user, wanted.group):
        try:
            os.chown(descriptor, wanted.user, wanted.group)
        except PermissionError:
            with suppress(PermissionError):
                os.chown(descriptor, -1, wanted.group)
    for name in _attribute_names(descriptor):
        if name not in wanted.attributes:
            with suppress(OSError):
                os.removexattr(descriptor, name)
    for name, value in wanted.attributes.items():
        with suppress(OSError):
            os.setxattr(descriptor, name, value)
    os.fchmod(descriptor, wanted.mode)


def lost_traits(wanted: Traits, found: Traits) -> tuple[str, ...]:
    """What a file has not that it should have, in words."""
    lost = []
    if found.user != wanted.user:
        lost.append(f"owner {wanted.user}")
    if found.group != wanted.group:
        lost.append(f"group {wanted.group}")
    if found.mode != wanted.mode:
        lost.append(f"mode {wanted.mode:04o}")
    names = sorted({*wanted.attributes, *found.attributes})
    differ = [name for name in names if found.attributes.get(name) != wanted.attributes.get(name)]
    return (*lost, *(f"attribute {name}" for name in differ))


def may_write(user: int, traits: Traits) -> bool:
    """Whether this user may write to a file with these traits; groups of an unknown user count as none."""
    if user == 0:
        return True
    if user == traits.user:
        return bool(traits.mode & stat.S_IWUSR)
    named, mask = _acl_rights(user, traits.attributes.get(ACCESS_ACL, b""))
    if named is not None:
        return bool(named & mask & _ACL_WRITE)
    if traits.group in _groups_of(user):
        return bool(traits.mode & stat.S_IWGRP)
    return bool(traits.mode & stat.S_IWOTH)


def _acl_rights(user: int, acl: bytes) -> tuple[int | None, int]:
    """(rights of the entry that names a user, None without one; the mask), from an ACL's bytes."""
    named, mask = None, 7
    for tag, rights, owner in _acl_entries(acl):
        if tag == _ACL_USER and owner == user:
            named = rights
        elif tag == _ACL_MASK:
            mask = rights
    return named, mask


def mode_of_acl(acl: bytes) -> int:
    """The permission bits that go with an ACL: those of the owner, of its mask (or the group), of others."""
    rights = {tag: bits for tag, bits, _ in _acl_entries(acl) if tag != _ACL_USER}
    group = rights.get(_ACL_MASK, rights.get(_ACL_GROUP_OBJ, 0))
    return rights.get(_ACL_USER_OBJ, 0) << 6 | group << 3 | rights.get(_ACL_OTHER, 0)


def _acl_entries(acl: bytes) -> Iterator[tuple[int, int, int]]:
    """Tag, rights and id of each entry."""
    body = acl[_ACL_HEAD.size :]
    yield from _ACL_ENTRY.iter_unpack(body[: len(body) // _ACL_ENTRY.size * _ACL_ENTRY.size])


def _groups_of(user: int) -> frozenset[int]:
    try:
        entry = pwd.getpwuid(user)
        return frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    except (KeyError, OSError):
        return frozenset()


_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
_STEP = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_roots: weakref.WeakSet[Root] = weakref.WeakSet()
_roots_lock = threading.Lock()  # threads look for their place while others open roots


class Root(Closing):
    """An open directory below which names may be written. `path` is for messages and for reading.

    With `only`, no names but these (and what is below them) can be made into places. The handle stays with
    the directory if that is renamed, and is closed with the last reference.
    """

    __slots__ = ("__weakref__", "_close", "descriptor", "only", "path")

    def __init__(self, path: str, descriptor: int, only: frozenset[str] | None = None) -> None:
        self.path = path
        self.descriptor = descriptor
        self.only = only
        self._close = weakref.finalize(self, os.close, descriptor)
        with _roots_lock:
            _roots.add(self)

    def __truediv__(self, name: str) -> ConfinedPlace:
        return ConfinedPlace(self, name)

    def __fspath__(self) -> str:
        return self.path

    def close(self) -> None:
        """Give the handle back; nothing can be written below any more."""
        with _roots_lock:
            _roots.discard(self)
        self._close()

    @property
    def itself(self) -> ConfinedPlace:
        """The directory as a place: to be listed and synced, not to be renamed or removed."""
        return ConfinedPlace(self, "")

    def holds(self, path: str) -> bool:
        """Whether a full path is the root's or below it, by its text, and among the names that it is for."""
        start = self.path.rstrip("/") + "/"
        if self.only is not None:
            return path.startswith(start) and path[len(start) :].partition("/")[0] in self.only
        return path == self.path or path.startswith(start)

    def place_of(self, path: str) -> ConfinedPlace:
        """The place of a full path below the root; UsageError for one that is not."""
        if not self.holds(path):
            raise UsageError(f"{path!a} is outside {self.path!a}: rocketfsck does not write there")
        return ConfinedPlace(self, path[len(self.path) :].lstrip("/"))


@dataclass(frozen=True, slots=True)
class ConfinedPlace:
    """A name below a root, with `/` between its parts; "" is the root. UsageError for a name that leads out.

    As a path (`os.fspath`, `str`) it is for reading and for messages only.
    """

    root: Root
    name: str

    def __post_init__(self) -> None:
        parts = self.name.split("/") if self.name else []
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise UsageError(f"{self.name!a} is not the name of a file below {self.root.path!a}")
        if self.root.only is not None and parts and parts[0] not in self.root.only:
            raise UsageError(
                f"{self.name!a} in {self.root.path!a} is outside of what this command may change"
            )

    def __truediv__(self, name: str) -> ConfinedPlace:
        return ConfinedPlace(self.root, f"{self.name}/{name}" if self.name else name)

    def __fspath__(self) -> str:
        return f"{self.root.path.rstrip('/')}/{self.name}" if self.name else self.root.path

    def __str__(self) -> str:
        return self.__fspath__()

    @property
    def parent(self) -> ConfinedPlace:
        """The directory that the name is in."""
        return ConfinedPlace(self.root, self.name.rpartition("/")[0])

    def beside(self, suffix: str) -> ConfinedPlace:
        """The place with the same name and more after it."""
        return ConfinedPlace(self.root, self.name + suffix)


def open_root(path: str | os.PathLike[str], *, only: frozenset[str] | None = None) -> Root:
    """The existing directory at a path, which must not be a symbolic link itself; raises OSError."""
    text = os.fspath(path)
    return Root(text, os.open(text, _OPEN), only)


def enter_root(place: ConfinedPlace, *, only: frozenset[str] | None = None) -> Root:
    """The existing directory at a place as a root of its own; raises OSError."""
    with reached(place) as (descriptor, name):
        return Root(str(place), os.open(name, _OPEN, dir_fd=descriptor), only)


def place_at(path: str | os.PathLike[str]) -> ConfinedPlace:
    """The place of a full path below a root that is open in this process; UsageError where none is.

    For writers of many files: they open the directory that they fill as a root, and name files by paths.
    """
    text = os.fspath(path)
    with _roots_lock:
        roots = list(_roots)
    holding = [root for root in roots if root.holds(text)]
    if not holding:
        raise UsageError(f"{text!a} is outside the directories opened for writing")
    return max(holding, key=lambda root: len(root.path)).place_of(text)


@contextmanager
def reached(place: ConfinedPlace) -> Iterator[tuple[int, str]]:
    """The handle of the directory that a place's last part is in, and that part ("." for a root).

    Every part before is opened without following links. OSError, also from within the block, names the place.
    """
    *folders, name = place.name.split("/")
    descriptor, opened = place.root.descriptor, -1
    try:
        for folder in folders:
            inner = os.open(folder, _STEP, dir_fd=descriptor)
            if opened >= 0:
                os.close(opened)
            descriptor = opened = inner
        yield descriptor, name or "."
    except OSError as error:
        if error.filename is None or not os.path.isabs(os.fsdecode(error.filename)):  # noqa: PTH117
            error.filename = str(place)
            error.filename2 = None
        raise
    finally:
        if opened >= 0:
            os.close(opened)
