"""What people and their disks do to whole stores: several changes that belong together.

not mounted      a directory is there, and nothing is in it
from a backup    the later files of a directory are gone, and what was written last in the one before
out of the way   every file of a directory has another ending
another's        the last file of a directory is the first one once more, or a directory is that of another
tidied up        the small files are gone, or one of the copies of configs is all that is left
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.hostile.fuzz.mutations import Mutation

if TYPE_CHECKING:
    from tests.hostile.fuzz.drawing import Ground

_SUFFIXES = (".bak", ".old", ".delete", "~", ".gz", ".1")
_SMALL = ("checkpoint", "abort", "lock", "abort.bak")


def _folder(rng: random.Random, ground: Ground) -> tuple[str, list[str]]:
    """A directory with files, and these files in the order of their names; the large parts more often."""
    found: dict[str, list[str]] = {}
    for file in ground.files:
        found.setdefault(file.rpartition("/")[0], []).append(file)
    found.pop("", None)
    names = sorted(found)
    weights = [6 if name in ("commitlog", "index", "config") else 1 for name in names]
    name = rng.choices(names, weights)[0]
    return name, sorted(found[name])


def _not_mounted(rng: random.Random, ground: Ground) -> list[Mutation]:
    _, files = _folder(rng, ground)
    return [Mutation("remove", file) for file in files]


def _from_a_backup(rng: random.Random, ground: Ground) -> list[Mutation]:
    _, files = _folder(rng, ground)
    kept = rng.randrange(len(files))
    size = ground.sizes[files[kept]]
    half = rng.randrange(size + 1)
    return [
        *(Mutation("remove", file) for file in files[kept + 1 :]),
        Mutation("truncate", files[kept], {"size": half}),
        Mutation("truncate", files[kept], {"size": size}),
    ]


def _out_of_the_way(rng: random.Random, ground: Ground) -> list[Mutation]:
    _, files = _folder(rng, ground)
    suffix = rng.choice(_SUFFIXES)
    return [Mutation("rename", file, {"name": file + suffix}) for file in files]


def _of_another(rng: random.Random, ground: Ground) -> list[Mutation]:
    folder, files = _folder(rng, ground)
    above = folder.rpartition("/")[0]
    others = [name for name in ground.folders if name.rpartition("/")[0] == above and name != folder]
    if others and rng.random() < 0.5:
        other = rng.choice(others)
        return [Mutation("remove", folder), Mutation("double", other, {"name": folder})]
    if len(files) < 2:
        return [Mutation("double", files[0], {"name": f"{files[0]}.copy"})]
    return [Mutation("remove", files[-1]), Mutation("double", files[0], {"name": files[-1]})]


def _tidied_up(rng: random.Random, ground: Ground) -> list[Mutation]:
    copies = [file for file in ground.files if file.startswith("config/") and file.endswith(".bak")]
    if copies and rng.random() < 0.5:
        return [Mutation("remove", file.removesuffix(".bak")) for file in copies]
    gone = [file for file in ground.files if file in _SMALL or file.startswith("config/")]
    return [Mutation("remove", file) for file in gone]


_WAYS: Sequence[Callable[[random.Random, Ground], list[Mutation]]] = (
    _not_mounted, _from_a_backup, _from_a_backup, _out_of_the_way, _of_another, _of_another, _tidied_up,
)  # fmt: skip


def draw_deed(rng: random.Random, ground: Ground) -> list[Mutation]:
    """One of them, on a store."""
    return rng.choice(_WAYS)(rng, ground)
