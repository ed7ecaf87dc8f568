"""Checks of segment directories: names, lengths, strays, gaps, twins, zeros. Reference 1.2, 1.3, 9.1.

Segments are files of one length, named by the offset of their first byte: `20 digits`, each the one before
plus the length. Only headers are read, and of the commit log the first page of a file that has data.

What a broker does with each entry of a segment directory when it starts. Reference 1.2, the load rules.

directory                      5.1.0+: skipped; before: a file of a wrong length
wrong length                   4.5.1+ (not 4.9.2): no start; else it and all that sort after it are ignored
empty and the last by name     5.1.3+: deleted
right length, no number        no start: NumberFormatException; with compacted logs, too
wrong length, a compacted log  5.1.1+: the queue is not served
right length, a number         loaded, at the offset that Long.parseLong reads
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import Dialect, Version, dialect_of, run_text, runs_of
from rocketfsck.formats.smallfiles import filename_to_offset, java_parse_long, offset_to_filename
from rocketfsck.store.circumstances import DialectEvidence
from rocketfsck.store.model import MappedFile, MappedFileQueue, Other, OtherKind, Store, Stray, StrayReason
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import TREES, Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Context, Known


class LoadEffect(StrEnum):
    """What becomes of an entry; the value ends the sentence "a broker ..."."""

    LOADED = "loads it"
    SKIPPED = "skips it"
    DELETED = "deletes it"
    HIDES = "ignores it and all files that sort after it"
    UNSERVED = "does not serve the queue"
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


PREALLOCATED_LIMIT = 2
"""A broker that has just filled a file has the next one and the one after it, both still zeros."""

HEAD_SIZE = 4096
_IN_DIRECTORY: Set[StrayReason] = {
    StrayReason.NAME,
    StrayReason.DIRECTORY,
    StrayReason.TEMPORARY,
    StrayReason.DELETED,
    StrayReason.SPECIAL,
    StrayReason.DANGLING,
}
_COMPACTED = (OtherKind.COMPACTION_LOG, OtherKind.COMPACTION_CQ)
_LOADED_OTHERS = (OtherKind.TIMER_LOG,)
_CHAINED_OTHERS = (OtherKind.TIMER_LOG, OtherKind.DLEDGER_DATA, OtherKind.DLEDGER_INDEX)


@dataclass(frozen=True, slots=True)
class Segments:
    """A mapped file queue, what it is called and whose it is. `unit_size` is 1 where units vary in size."""

    queue: MappedFileQueue
    area: str
    unit_size: int = 1
    topic: str | None = None
    queue_id: int | None = None
    loaded_by_rule: bool = True

    def where(self, file: str, start: int | None = None, end: int | None = None) -> Where:
        """A place in one of the queue's directories."""
        return Where(file, start, end, topic=self.topic, queue_id=self.queue_id)


def segment_directories(store: Store) -> Iterator[Segments]:
    """Every segment directory of a store."""
    yield Segments(store.commitlog, "commitlog")
    for queue in store.queues:
        yield Segments(queue.mapped_files, TREES[queue.kind], queue.unit_size, queue.topic, queue.queue_id)
    for ext in store.ext_queues:
        yield Segments(ext.mapped_files, "consumequeue_ext", 1, ext.topic, ext.queue_id)
    for other in store.others:
        in_log = other.kind is OtherKind.DLEDGER_DATA and store.has_entries
        if other.mapped_files is not None and other.kind in _CHAINED_OTHERS and not in_log:
            is_loaded, files = other.kind in _LOADED_OTHERS, other.mapped_files
            yield Segments(files, other.relative, 1, other.topic, other.queue_id, is_loaded)


def check_segments(context: Context, known: Known) -> Items:
    """Everything about the segment directories of a store."""
    store = context.store
    strays = _strays_by_directory(store)
    zero: list[bool] = []
    yield from _look_for_zeros(store, known, zero)
    used = _used_count(store.commitlog.files, zero)
    unused = frozenset(store.commitlog.files[used:] if _ends_with(store, known, used) else ())
    for segments in segment_directories(store):
        inside = [stray for path in segments.queue.locations for stray in strays.get(path, ())]
        if segments.loaded_by_rule:
            yield from _check_loading(segments, inside, store)
        yield from _check_chain(segments, unused)
    yield from _check_compacted_names(store)
    yield from _check_zero_segments(store.commitlog.files, zero, used)


def _check_compacted_names(store: Store) -> Findings:
    """What is among the files of compacted logs besides them: old ones that a broker renamed to delete."""
    for other, stray in _compacted_strays(store):
        size = other.mapped_files.file_size if other.mapped_files is not None else 0
        effect = by_version(store.dialect_evidence, partial(_compacted_effect, stray.size == size))
        where = Where(stray.relative, 0, stray.size, topic=other.topic, queue_id=other.queue_id)
        found: Facts = {"size": stray.size, "area": other.relative, "effect": effect}
        yield Finding(RuleName.FOREIGN_FILE, where, found, {"size": size})


def _compacted_effect(is_as_long: bool, dialect: Dialect) -> str:
    if not dialect.compaction:
        return LoadEffect.SKIPPED
    tolerated = dialect.compaction_load_tolerant and not is_as_long
    return LoadEffect.UNSERVED if tolerated else LoadEffect.REFUSES


def _compacted_strays(store: Store) -> Iterator[tuple[Other, Stray]]:
    if not store.settings.flag("enableCompaction", True):
        return
    strays = _strays_by_directory(store)
    for other in store.others:
        if other.kind in _COMPACTED:
            for stray in strays.get(str(other.path), ()):
                if stray.reason in (StrayReason.NAME, StrayReason.TEMPORARY, StrayReason.DELETED):
                    yield other, stray


def compacted_strays(store: Store) -> frozenset[str]:
    """The strays among compacted logs that `check_segments` reports, by their paths below the root."""
    return frozenset(stray.relative for _, stray in _compacted_strays(store))


def loaded_directories(store: Store) -> frozenset[str]:
    """The directories whose every entry a broker treats as a segment."""
    loaded = (segments for segments in segment_directories(store) if segments.loaded_by_rule)
    return frozenset(path for segments in loaded for path in segments.queue.locations)


def is_among_segments(stray: Stray, directories: frozenset[str]) -> bool:
    """Whether a stray is one that `check_segments` reports."""
    return stray.reason in _IN_DIRECTORY and str(stray.path.parent) in directories


def _strays_by_directory(store: Store) -> Mapping[str, list[Stray]]:
    found: dict[str, list[Stray]] = {}
    for stray in store.strays:
        if stray.reason in _IN_DIRECTORY:
            found.setdefault(str(stray.path.parent), []).append(stray)
    return found


def _check_loading(segments: Segments, strays: Sequence[Stray], store: Store) -> Findings:
    """What the next start does with the entries of the directory that are not as they should be."""
    size = segments.queue.file_size
    files = segments.queue.files
    if not strays and all(file.size == size and filename_to_offset(file.name) is not None for file in files):
        return
    evidence = store.dialect_evidence
    effects: dict[str, dict[Version, str]] = {}
    for version in evidence.versions:
        for entry in load_effects(segments.queue, strays, dialect_of(version)):
            effects.setdefault(entry.relative, {})[version] = _effect_text(entry)
    for entry in load_effects(segments.queue, strays, store.dialect):
        where = segments.where(entry.relative, 0, entry.size)
        if entry.effect is LoadEffect.LOADED:
            if entry.stray or filename_to_offset(entry.name) is None:
                number: Facts = {"offset": java_parse_long(entry.name), "size": entry.size}
                yield Finding(RuleName.FOREIGN_NUMBER, where, number)
            continue
        known, own = effects.get(entry.relative, {}), _effect_text(entry)
        effect = by_version(evidence, partial(_looked_up, known, own))
        found: Facts = {"size": entry.size, "area": segments.area, "effect": effect}
        yield Finding(_loading_rule(entry), where, found, {"size": size})


def _looked_up(effects: Mapping[Version, str], own: str, dialect: Dialect) -> str:
    return effects.get(dialect.version, own)


def _loading_rule(entry: LoadEntry) -> str:
    if not entry.stray:
        return RuleName.EMPTY_LAST_SEGMENT if entry.effect is LoadEffect.DELETED else RuleName.SEGMENT_LENGTH
    is_harmless = entry.effect not in (LoadEffect.REFUSES, LoadEffect.HIDES)
    return RuleName.FOREIGN_FILE_HARMLESS if is_harmless else RuleName.FOREIGN_FILE


def _effect_text(entry: LoadEntry) -> str:
    return f"{entry.effect}: {entry.hidden_count}" if entry.hidden_count else str(entry.effect)


def _check_chain(segments: Segments, unused: frozenset[MappedFile]) -> Findings:
    """Names: multiples of the segment's and the unit's size, each following the one before. In front of
    `unused` files nothing can be missing."""
    previous: MappedFile | None = None
    rule_before: str | None = None
    for file in segments.queue.files:
        start = file.start_offset
        if start is None:
            continue
        rule, multiple = _misaligned(segments, start)
        if rule is not None and rule != rule_before:  # those that follow it are as far off
            yield Finding(
                rule, segments.where(file.relative), {"start_offset": start}, {"multiple": multiple}
            )
        if previous is not None and previous.start_offset is not None:
            yield from _check_step(segments, previous, file, start - previous.start_offset, unused)
        previous, rule_before = file, rule


def _misaligned(segments: Segments, start_offset: int) -> tuple[str | None, int]:
    """The rule that a segment's start breaks, and of what it should be a multiple."""
    for rule, multiple in (
        (RuleName.SEGMENT_UNIT_ALIGNMENT, segments.unit_size),
        (RuleName.SEGMENT_ALIGNMENT, segments.queue.file_size),
    ):
        if multiple > 0 and start_offset % multiple:
            return rule, multiple
    return None, 1


def _check_step(
    segments: Segments, previous: MappedFile, file: MappedFile, step: int, unused: frozenset[MappedFile]
) -> Findings:
    size = segments.queue.file_size
    start = file.start_offset or 0
    where = segments.where(file.relative)
    if step == 0:
        zero = sum(_begins_with_zeros(item) for item in (previous, file))
        yield Finding(RuleName.SEGMENT_TWICE, where, {"twin": previous.relative, "zero_file_count": zero})
    elif step == previous.size > 0:  # of another length, which ST001 says, but nothing is missing
        return
    elif step < size:
        yield Finding(
            RuleName.SEGMENT_OVERLAP, where, {"start_offset": start}, {"start_offset": start - step + size}
        )
    elif step > size and file not in unused:
        missing = step - size
        first, last = start - missing, start - (missing - 1) % size - 1
        found: Facts = {
            "missing_byte_count": missing,
            "area": segments.area,
            "first_file": offset_to_filename(first),
            "last_file": offset_to_filename(last),
        }
        yield Finding(RuleName.SEGMENT_GAP, where, found, {"start_offset": first})


def _look_for_zeros(store: Store, known: Known, zero: list[bool]) -> Iterator[NotChecked]:
    """Put into `zero`, for each commit log file, whether it has no data."""
    for index, file in enumerate(store.commitlog.files):
        facts = known.logs[index] if index < len(known.logs) else None
        try:
            zero.append(file.size > 0 and (facts.all_zero if facts is not None else _begins_with_zeros(file)))
        except StoreError as error:
            zero.append(False)
            yield NotChecked(file.relative, str(error), operational=True)


def _used_count(files: Sequence[MappedFile], zero: Sequence[bool]) -> int:
    """How many files there are up to the last one with data."""
    used = (index + 1 for index, file in enumerate(files) if file.size and not zero[index])
    return max(used, default=0)


def _ends_with(store: Store, known: Known, used: int) -> bool:
    """Whether no unit leads to a place after the first `used` files of the log.

    Then those that follow were made ahead of use, and of two a power cut may have kept the later one.
    """
    if not used or not known.complete or known.queues_elsewhere:
        return False
    last = store.commitlog.files[used - 1]
    end = (last.start_offset or 0) + last.size
    return all(queue.max_physical_end <= end for queue in known.queues.values())


def _check_zero_segments(files: Sequence[MappedFile], zero: Sequence[bool], used: int) -> Findings:
    """Commit log files without any data: allocated ahead, never filled, or lost."""
    for file, is_zero in zip(files[:used], zero[:used], strict=True):
        if is_zero:
            yield Finding(RuleName.SEGMENT_ZERO_INSIDE, _bytes_of(file), {"size": file.size})
    ahead = [file for file in (files[used:] if used else files[1:]) if file.size]
    if len(ahead) > PREALLOCATED_LIMIT:
        yield Finding(RuleName.SEGMENTS_NEVER_FILLED, _bytes_of(ahead[0]), {"file_count": len(ahead)})
    else:
        for file in ahead:
            yield Finding(RuleName.SEGMENT_PREALLOCATED, _bytes_of(file), {"size": file.size})


def _bytes_of(file: MappedFile) -> Where:
    return Where(file.relative, 0, file.size, physical_offset=file.start_offset)


def _begins_with_zeros(file: MappedFile) -> bool:
    """Whether a file has no data, as far as its first page and its holes tell. Raises StoreError."""
    with FileReader(file.path) as reader:
        return not any(reader.read_upto(0, HEAD_SIZE)) or next(reader.data_extents(), None) is None
