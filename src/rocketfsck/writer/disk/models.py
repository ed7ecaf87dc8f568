"""Whose traits something new in a store gets: owner, group, permissions, ACLs and other attributes.

What takes a file's place gets all that this file had. What is new gets what the files next to it have,
without the attributes that are about one file's content; where there are none, what the directory above
passes on.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace

from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, open_root
from rocketfsck.writer.disk.traits import ACCESS_ACL, DEFAULT_ACL, Traits, mode_of_acl, traits_of

_FILE_MODE = 0o644
_LOOKED_AT = 64
"""So many names of a directory are looked at for a file of the kind wanted."""


def model_of(replaced: ConfinedPlace | None, target: ConfinedPlace, directory: bool = False) -> Traits:
    """The traits of what will be at `target`, a file or a directory.

    `replaced` is where the thing is now that was there before, if anything was. Raises OSError.
    """
    if replaced is not None:
        if _is_kind(replaced, directory):
            return traits_of(os.fspath(replaced))
        beside = _neighbour(replaced.parent, directory)
        if beside is not None:
            return beside
    above = target.parent
    while not fileops.is_directory(above):
        above = above.parent
    beside = _neighbour(above, directory) if above == target.parent else None
    return beside or _inherited(traits_of(os.fspath(above)), directory)


def inherit_traits(built: ConfinedPlace, replaced: str, *, same_content: bool) -> None:
    """Let a directory that takes another one's place, and all in it, have the traits of what was there.

    What is new gets the traits of what would be next to it. Attributes that are about one file's content are
    kept with `same_content`. Raises OSError.
    """
    with open_root(os.path.realpath(replaced)) as old:
        for folder, _, names in fileops.walk(built):
            _take_over(folder, _counterpart(folder, built, old), True, True)
            for name in names:
                _take_over(folder / name, _counterpart(folder / name, built, old), False, same_content)


def _counterpart(place: ConfinedPlace, built: ConfinedPlace, old: Root) -> ConfinedPlace:
    return old / str(place).removeprefix(str(built)).lstrip("/")


def _take_over(place: ConfinedPlace, before: ConfinedPlace, directory: bool, same_content: bool) -> None:
    wanted = model_of(before if fileops.exists(before) else None, before, directory)
    fileops.set_traits(place, wanted if same_content else wanted.for_new_file())


def _neighbour(above: ConfinedPlace, directory: bool) -> Traits | None:
    """The traits of another file, or directory, in a directory: of the last by name, which is the newest."""
    if not fileops.is_directory(above):
        return None
    for name in fileops.list_names(above)[: -_LOOKED_AT - 1 : -1]:
        if _is_kind(above / name, directory):
            return traits_of(os.fspath(above / name)).for_new_file()
    return None


def _is_kind(place: ConfinedPlace, directory: bool) -> bool:
    wanted = stat.S_ISDIR if directory else stat.S_ISREG
    return fileops.exists(place) and wanted(fileops.status_of(place).st_mode)


def _inherited(above: Traits, directory: bool) -> Traits:
    """What a directory passes on to something new in it."""
    attributes = dict(above.for_new_file().attributes)
    passed_on = attributes.get(DEFAULT_ACL)
    if directory:
        if passed_on is not None:
            attributes[ACCESS_ACL] = passed_on
        return replace(above, attributes=attributes)
    if passed_on is None:
        return Traits(above.user, above.group, _FILE_MODE, {})
    return Traits(above.user, above.group, mode_of_acl(passed_on) & 0o666, {ACCESS_ACL: passed_on})
