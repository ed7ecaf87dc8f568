"""A tree to try the acts of a repair on: files are borrowed, and changing a large one costs what is written.

    file of the store      a symbolic link to it
    changed, small         a copy
    changed, large         a sparse file with the changed bytes, above the store's file (`store.layers`)

Nothing of the store is touched, not even by a hard link, and nothing of such a tree is ever published.
"""

from __future__ import annotations

import os

from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.store.layers import drop_layers, lay, layers, move_layers
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

COPIED_SIZE = 1 << 20
"""Files up to this size are copied before they are changed."""


class ThinTree(WorkTree):
    """A `WorkTree` whose large files have layers; what reads its files in this process reads through them."""

    def close(self) -> None:
        """Forget the layers: from now on the changed files cannot be read."""
        drop_layers(os.fspath(self.area))

    def write(self, file: str, pos: int, data: bytes) -> None:
        super().write(file, pos, data)
        self._owned(file, pos, pos + len(data))

    def zero(self, file: str, start: int, end: int) -> None:
        super().zero(file, start, end)
        self._owned(file, start, end)

    def resize(self, file: str, size: int) -> None:
        super().resize(file, size)
        layer = layers.get(self.place(file))
        if layer is not None:
            layer.cut(size)

    def rename(self, old: str, new: str) -> None:
        source = self.place(old)
        super().rename(old, new)
        move_layers(source, self.place(new))

    def set_aside(self, file: str) -> str:
        source = self.place(file)
        name = super().set_aside(file)
        move_layers(source, f"{self.set_aside_root}/{name}")
        return name

    def _owned(self, file: str, start: int, end: int) -> None:
        layer = layers.get(self.place(file))
        if layer is not None:
            layer.own(start, end)

    def _own(self, place: ConfinedPlace) -> None:
        path = str(place)
        lower = os.path.realpath(path)
        status = os.stat(lower)  # noqa: PTH116 - names may be any bytes
        if not self._is_borrowed(path) or status.st_size <= COPIED_SIZE:
            super()._own(place)
            return
        part = self.at("own.part")
        if fileops.exists(part):
            fileops.unlink(part)
        fileops.create(part, status.st_size, 0o600)
        fileops.set_times(part, status.st_atime_ns, status.st_mtime_ns)
        fileops.rename(part, place)
        lay(path, lower, status.st_size)

    def _is_borrowed(self, path: str) -> bool:
        return os.path.islink(path)  # noqa: PTH114
