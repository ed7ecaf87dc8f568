"""Whose a file is and who may use it: owner, group, permissions, ACLs and other extended attributes.

A copy of a file has them all, as far as the system lets us; `lost_traits` says what it has not. POSIX ACLs
are the extended attributes `system.posix_acl_access` and, of directories, `system.posix_acl_default`.
"""

from __future__ import annotations

import os
import pwd
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

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
