"""Checks of segment directories: names, lengths, strays, gaps, twins, zeros. Reference 1.2, 1.3, 9.1.

Segments are files of one length, named by the offset of their first byte: `20 digits`, each the one before
plus the length. Only headers are read, and of the commit log the first page of a file that has data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import Dialect, Version, dialect_of
from rocketfsck.formats.filename import filename_to_offset, java_parse_long, offset_to_filename
from rocketfsck.store.model import MappedFile, MappedFileQueue, OtherKind, Store, Stray, StrayReason
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.emit import TREES
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.store.loading import LoadEffect, LoadEntry, by_version, load_effects
from rocketfsck.verify.tasks.facts import Known
from rocketfsck.verify.tasks.task import Context

PREALLOCATED_LIMIT = 2
"""A broker that has just filled a file has the next one and the one after it, both still zeros."""

HEAD_SIZE = 4096
_IN_DIRECTORY = frozenset(
    {
        StrayReason.NAME,
        StrayReason.DIRECTORY,
        StrayReason.TEMPORARY,
        StrayReason.DELETED,
        StrayReason.SPECIAL,
        StrayReason.DANGLING,
    }
)
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
        return Where(file=file, start=start, end=end, topic=self.topic, queue_id=self.queue_id)


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
            yield Segments(
                other.mapped_files,
                other.relative,
                topic=other.topic,
                queue_id=other.queue_id,
                loaded_by_rule=other.kind in _LOADED_OTHERS,
            )


def check_segments(context: Context, known: Known) -> Iterator[Finding | NotChecked]:
    """Everything about the segment directories of a store."""
    store = context.store
    strays = _strays_by_directory(store)
    for segments in segment_directories(store):
        inside = [stray for path in segments.queue.locations for stray in strays.get(path, ())]
        if segments.loaded_by_rule:
            yield from _check_loading(segments, inside, store)
        yield from _check_chain(segments)
    yield from check_zero_segments(store, known)


def loaded_directories(store: Store) -> frozenset[str]:
    """The directories whose every entry a broker treats as a segment."""
    return frozenset(
        path
        for segments in segment_directories(store)
        if segments.loaded_by_rule
        for path in segments.queue.locations
    )


def is_among_segments(stray: Stray, directories: frozenset[str]) -> bool:
    """Whether a stray is one that `check_segments` reports."""
    return stray.reason in _IN_DIRECTORY and str(stray.path.parent) in directories


def _strays_by_directory(store: Store) -> Mapping[str, list[Stray]]:
    found: dict[str, list[Stray]] = {}
    for stray in store.strays:
        if stray.reason in _IN_DIRECTORY:
            found.setdefault(str(stray.path.parent), []).append(stray)
    return found


def _check_loading(segments: Segments, strays: Sequence[Stray], store: Store) -> Iterator[Finding]:
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
                yield Finding(
                    RuleName.FOREIGN_NUMBER,
                    where,
                    {"offset": java_parse_long(entry.name), "size": entry.size},
                )
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
    return (
        RuleName.FOREIGN_FILE
        if entry.effect in (LoadEffect.REFUSES, LoadEffect.HIDES)
        else RuleName.FOREIGN_FILE_HARMLESS
    )


def _effect_text(entry: LoadEntry) -> str:
    return f"{entry.effect}: {entry.hidden_count}" if entry.hidden_count else str(entry.effect)


def _check_chain(segments: Segments) -> Iterator[Finding]:
    """Names: multiples of the segment's and the unit's size, each following the one before."""
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
            yield from _check_step(segments, previous, file, start - previous.start_offset)
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


def _check_step(segments: Segments, previous: MappedFile, file: MappedFile, step: int) -> Iterator[Finding]:
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
    elif step > size:
        missing = step - size
        first, last = start - missing, start - (missing - 1) % size - 1
        found: Facts = {
            "missing_byte_count": missing,
            "area": segments.area,
            "first_file": offset_to_filename(first),
            "last_file": offset_to_filename(last),
        }
        yield Finding(RuleName.SEGMENT_GAP, where, found, {"start_offset": first})


def check_zero_segments(store: Store, known: Known) -> Iterator[Finding | NotChecked]:
    """Commit log files without any data: allocated ahead, never filled, or lost."""
    files = store.commitlog.files
    zero: list[bool] = []
    for index, file in enumerate(files):
        facts = known.logs[index] if index < len(known.logs) else None
        try:
            zero.append(file.size > 0 and (facts.all_zero if facts is not None else _begins_with_zeros(file)))
        except StoreError as error:
            zero.append(False)
            yield NotChecked(file.relative, str(error), operational=True)
    tail = len(files)
    while tail > 0 and zero[tail - 1]:
        tail -= 1
    for file, is_zero in zip(files[:tail], zero[:tail], strict=True):
        if is_zero:
            yield Finding(RuleName.SEGMENT_ZERO_INSIDE, _bytes_of(file), {"size": file.size})
    ahead = files[tail:] if tail else files[1:]
    if len(ahead) > PREALLOCATED_LIMIT:
        yield Finding(RuleName.SEGMENTS_NEVER_FILLED, _bytes_of(ahead[0]), {"file_count": len(ahead)})
    else:
        for file in ahead:
            yield Finding(RuleName.SEGMENT_PREALLOCATED, _bytes_of(file), {"size": file.size})


def _bytes_of(file: MappedFile) -> Where:
    return Where(file=file.relative, start=0, end=file.size, physical_offset=file.start_offset)


def _begins_with_zeros(file: MappedFile) -> bool:
    """Whether a file has no data, as far as its first page and its holes tell. Raises StoreError."""
    with FileReader(file.path) as reader:
        return not any(reader.read_upto(0, HEAD_SIZE)) or next(reader.data_extents(), None) is None
