"""What a broker does with each entry of a segment directory when it starts. Reference 1.2, the load rules.

directory                      5.1.0+: skipped; before: a file of a wrong length
wrong length                   4.5.1+ (not 4.9.2): no start; else it and all that sort after it are ignored
empty and the last by name     5.1.3+: deleted
right length, no number        no start: NumberFormatException
right length, a number         loaded, at the offset that Long.parseLong reads
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from rocketfsck.formats.dialect import Dialect, Version, dialect_of, run_text, runs_of
from rocketfsck.formats.filename import java_parse_long
from rocketfsck.store.circumstances import DialectEvidence
from rocketfsck.store.model import MappedFileQueue, Stray, StrayReason


class LoadEffect(StrEnum):
    """What becomes of an entry; the value ends the sentence "a broker ..."."""

    LOADED = "loads it"
    SKIPPED = "skips it"
    DELETED = "deletes it"
    HIDES = "ignores it and all files that sort after it"
    REFUSES = "refuses to start"


@dataclass(frozen=True, slots=True)
class LoadEntry:
    """One entry of a segment directory. `hidden_count` is how many right files HIDES takes along."""

    relative: str
    name: str
    size: int
    directory: bool
    stray: bool
    effect: LoadEffect = LoadEffect.LOADED
    hidden_count: int = 0


def load_effects(queue: MappedFileQueue, strays: Iterable[Stray], dialect: Dialect) -> tuple[LoadEntry, ...]:
    """Every entry of a mapped file queue's directories in load order, with what becomes of it.

    `strays` are those of the queue's directories. Names are in the order of Python's strings; a broker before
    4.9.2 sorts by path, which differs only where a commit log has several directories.
    """
    entries = [
        LoadEntry(file.relative, file.name, file.size, directory=False, stray=False) for file in queue.files
    ]
    entries += [
        LoadEntry(item.relative, item.path.name, item.size, item.reason is StrayReason.DIRECTORY, stray=True)
        for item in strays
    ]
    by_path = dialect.load_order == "path"
    entries.sort(key=lambda entry: (entry.relative, "") if by_path else (entry.name, entry.relative))
    present = [entry for entry in entries if not (entry.directory and dialect.directories_skipped)]
    loaded = []
    later_count = sum(_is_right(entry, queue.file_size) for entry in entries)
    for entry in entries:
        later_count -= _is_right(entry, queue.file_size)
        effect = _effect(entry, queue.file_size, dialect, last=bool(present) and entry is present[-1])
        hidden = later_count if effect is LoadEffect.HIDES else 0
        loaded.append(dataclasses.replace(entry, effect=effect, hidden_count=hidden))
    return tuple(loaded)


def _is_right(entry: LoadEntry, file_size: int) -> bool:
    return not entry.stray and entry.size == file_size


def _effect(entry: LoadEntry, file_size: int, dialect: Dialect, *, last: bool) -> LoadEffect:
    if entry.directory and dialect.directories_skipped:
        return LoadEffect.SKIPPED
    if not entry.directory and entry.size == file_size:
        return LoadEffect.REFUSES if java_parse_long(entry.name) is None else LoadEffect.LOADED
    if entry.size == 0 and not entry.directory and last and dialect.empty_last_file_deleted:
        return LoadEffect.DELETED
    return LoadEffect.REFUSES if dialect.wrong_size_fatal else LoadEffect.HIDES


def by_version(evidence: DialectEvidence, effect: Callable[[Dialect], str]) -> str:
    """An effect with the versions that have it, of all that may have written the store; the dialect's first.

    `refuses to start (4.5.1 to 4.7.0), or ignores it (4.0.0 to 4.4.0)`
    """
    versions: dict[str, list[Version]] = {effect(evidence.dialect): []}
    for version in evidence.versions or (evidence.dialect.version,):
        versions.setdefault(effect(dialect_of(version)), []).append(version)
    spans = {text: runs_of(group or [evidence.dialect.version]) for text, group in versions.items()}
    return ", or ".join(f"{text} ({', '.join(map(run_text, runs))})" for text, runs in spans.items())
