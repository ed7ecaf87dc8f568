"""The files of a store as a tree: families, below those of queues topics, and queues with several files.

    ▾ commit log (2 files)
      commitlog/00000000000000000000
      commitlog/00000000000000065536
    ▾ consume queues (3 files)
      ▾ TopicTest (3 files)
        0/00000000000000000000
        ▸ queue 1 (2 files)

A family with many files is folded at first, so that all families are on the first screen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from rocketfsck.cli.browse.model.files import MARKS, FileRow, number_of
from rocketfsck.cli.show.text import byte_size, count_of, visible, width

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import FindingCounts, Findings

MOST_UNFOLDED = 24
"""Files of a family that is unfolded at first: with them a screen is full."""
FOLDED, UNFOLDED = "▸", "▾"
COMPACTED, TIERED, DATABASES, OTHER = "compacted topics", "tiered storage", "RocksDB databases", "other"
FAMILIES: dict[str, tuple[str, ...]] = {
    "commit log": ("commitlog",),
    "consume queues": ("consumequeue",),
    "batch consume queues": ("batchconsumequeue",),
    "extensions of consume queues": ("consumequeue-ext",),
    "index": ("index",),
    "DLedger": ("dledger-data", "dledger-index"),
    "config": ("config",),
    "timers": ("timerwheel", "timerlog", "timercheck"),
    COMPACTED: (),
    TIERED: ("tiered-index",),
    DATABASES: (),
    OTHER: (),
}
"""The families in their order, with the kinds of files that make them."""
FAMILY_OF_KIND = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}
OWN_TREES = ("consumequeue/", "batchconsumequeue/", "consumequeue_ext/")
"""Where the files of queues are that belong to no compacted topic and no tiered storage."""


@dataclass(frozen=True)
class Folder:
    """Files under one line. `key` tells folders apart; sizes are in bytes, those of all files."""

    key: tuple[str, ...]
    title: str
    rows: tuple[FileRow, ...]
    parts: tuple[Folder | FileRow, ...]

    @cached_property
    def size(self) -> int:
        return sum(row.size for row in self.rows)

    @cached_property
    def allocated_size(self) -> int:
        return sum(min(row.allocated_size, row.size) for row in self.rows)


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of the tree: a folder, or a file as it is called there. `depth` counts the folders around it."""

    what: Folder | FileRow
    depth: int
    name: str


def family_of(row: FileRow) -> str:
    """The family of a file."""
    target = row.target
    if target.database is not None:
        return DATABASES
    if target.name.startswith("compaction/"):
        return COMPACTED
    if target.topic is not None and not target.name.startswith(OWN_TREES):
        return TIERED
    return FAMILY_OF_KIND.get(target.kind, OTHER)


def file_tree(rows: Iterable[FileRow]) -> tuple[Folder, ...]:
    """The families that have files. Nothing is read."""
    families: dict[str, list[FileRow]] = {family: [] for family in FAMILIES}
    for row in rows:
        families[family_of(row)].append(row)
    return tuple(_family(name, tuple(found)) for name, found in families.items() if found)


def _family(name: str, rows: tuple[FileRow, ...]) -> Folder:
    topics: dict[str, list[FileRow]] = {}
    parts: list[Folder | FileRow] = []
    for row in rows:
        if row.target.topic is None:
            parts.append(row)
        else:
            topics.setdefault(row.target.topic, []).append(row)
    parts += [_topic((name, topic), found) for topic, found in topics.items()]
    return Folder((name,), name, rows, tuple(parts))


def _topic(key: tuple[str, str], rows: list[FileRow]) -> Folder:
    ordered = sorted(rows, key=number_of)
    parts: list[Folder | FileRow] = []
    for queue_id, group in groupby(ordered, key=lambda row: row.target.queue_id):
        files = tuple(group)
        folder = Folder((*key, str(queue_id)), f"queue {queue_id}", files, files)
        parts.append(folder if len(files) > 1 else files[0])
    return Folder(key, key[1], tuple(ordered), tuple(parts))


def unfolded_at_first(tree: Iterable[Folder]) -> set[tuple[str, ...]]:
    """The folders that are unfolded before anybody chose."""
    return all_keys(family for family in tree if len(family.rows) <= MOST_UNFOLDED)


def all_keys(folders: Iterable[Folder | FileRow]) -> set[tuple[str, ...]]:
    """The keys of folders, and of all folders in them."""
    found: set[tuple[str, ...]] = set()
    for folder in folders:
        if isinstance(folder, Folder):
            found |= {folder.key, *all_keys(folder.parts)}
    return found


def tree_lines(tree: Iterable[Folder], unfolded: Collection[tuple[str, ...]]) -> list[TreeLine]:
    """The lines of a tree, with what is in the folders that are `unfolded`."""
    return [line for family in tree for line in _lines(family, unfolded)]


def _lines(folder: Folder, unfolded: Collection[tuple[str, ...]]) -> Iterator[TreeLine]:
    is_open = folder.key in unfolded
    fold = UNFOLDED if is_open else FOLDED
    name = f"{fold} {visible(folder.title)} ({count_of(len(folder.rows), 'file')})"
    depth = len(folder.key) - 1
    yield TreeLine(folder, depth, name)
    if is_open:
        for part in folder.parts:
            if isinstance(part, Folder):
                yield from _lines(part, unfolded)
            else:
                yield TreeLine(part, depth + 1, _name(part, len(folder.key)))


def _name(row: FileRow, folder_count: int) -> str:
    """The name of a file below so many folders: in a topic without the topic, in a queue without both."""
    target = row.target
    if target.database is not None:
        return f"{visible(target.name)}  {row.title}"
    inside = f"/{target.topic}/{target.queue_id}/"
    if folder_count < 2 or inside not in target.name:
        return visible(target.name)
    before, last = target.name.split(inside, 1)
    if family_of(row) == COMPACTED:  # of each queue a log and units
        last = f"{before.rsplit('/', 1)[-1]}/{last}"
    return visible(last if folder_count > 2 else f"{target.queue_id}/{last}")


def folder_counts(tree: Iterable[Folder], findings: Findings) -> dict[tuple[str, ...], FindingCounts]:
    """How many findings the files of each folder have; folders without any are left out."""
    found: dict[tuple[str, ...], FindingCounts] = {}
    folders = list(tree)
    while folders:
        folder = folders.pop()
        folders += [part for part in folder.parts if isinstance(part, Folder)]
        counts = [counts for row in folder.rows if (counts := findings.counts(row.key)).counts]
        for each in counts:
            found[folder.key] = found[folder.key] + each if folder.key in found else each
    return found


def file_title() -> str:
    """The line above the files."""
    return f"  {'size':>9}  {'on disk':>9}  findings  file"


def line_text(line: TreeLine, counts: FindingCounts | None, columns: int) -> str:
    """A line of so many columns: of a long name the end is shown.

    The size on the disk is there where a file has holes.
    """
    marks = "" if counts is None else counts.said
    mark = " " if counts is None or counts.worst is None else MARKS[counts.worst]
    on_disk = byte_size(line.what.allocated_size) if line.what.allocated_size < line.what.size else ""
    before = f"{mark} {byte_size(line.what.size):>9}  {on_disk:>9}  {marks:<8}  {'  ' * line.depth}"
    return before + end_of(line.name, max(columns - len(before), 8))


def end_of(text: str, columns: int) -> str:
    """A text of at most so many columns: its end, where it is longer."""
    if width(text) <= columns:
        return text
    while width(text) >= columns:
        text = text[1:]
    return f"…{text}"
