"""Salvage: a new conformant store out of whatever records can be found, and a ledger of what came from where.

    sources -> carve -> judge -> choose -> place -> write log -> queues, index, checkpoint, topics -> check

Nothing that is read is changed. The store is built next to its place and appears whole; a check says before
that what is wrong with it. Design, section 5.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rocketfsck.common.documents import FLAT, LEFT_OUT, to_document
from rocketfsck.common.outputs import is_special
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dialect import WRITTEN_NAME, parse_version
from rocketfsck.progress import part, phase
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.carve.carve import (
    LOG_DIRECTORY,
    CarvedRecords,
    Carver,
    SkippedFile,
    SourceFile,
    list_sources,
)
from rocketfsck.repair.carve.confidence import Confidence, judge
from rocketfsck.repair.log import min_filler_size
from rocketfsck.repair.salvage.build import NewStore, fill_store
from rocketfsck.repair.salvage.choose import (
    Fate,
    Placement,
    choose,
    count_skipped,
    fits_file,
    place_kept,
    place_packed,
)
from rocketfsck.repair.salvage.ledger import (
    QueueAccount,
    RecordGap,
    Salvage,
    SalvageHead,
    SalvageOptions,
    Story,
    account_queues,
    find_gaps,
    ledger_lines,
    prove_tiling,
)
from rocketfsck.scan.columns import Trait
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.disk.publish import SideFile, building_directory, clear_side_file, demand_free

if TYPE_CHECKING:
    from rocketfsck.verify.report import Report


LEAST_FILE_SIZE = 4 * min_filler_size()


@dataclass(frozen=True, slots=True)
class SalvagedStore:
    """The store that was written, what a check of level `full` says, and what brokers will do with it."""

    salvage: Salvage
    path: Path
    ledger_path: Path
    report: Report
    starts: tuple[StartVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class SalvageDocument:
    """A salvage as JSON says it. Of the store that was written: where it is, what a check finds in it above
    info but for what is missing, by rule, and what brokers will do with it; nothing for a dry run."""

    schema_version: int
    kind: Literal["rocketfsck.salvage"]
    head: SalvageHead = field(metadata=FLAT)
    queues: Sequence[QueueAccount]
    into: Path | None = field(default=None, metadata=LEFT_OUT)
    ledger: Path | None = field(default=None, metadata=LEFT_OUT)
    findings: Mapping[str, int] | None = field(default=None, metadata=LEFT_OUT)
    starts: tuple[StartVerdict, ...] | None = field(default=None, metadata=LEFT_OUT)


def find_records(paths: Sequence[Path], options: SalvageOptions) -> Salvage:
    """Carve the paths and decide what of it is taken, and where to.

    Raises UsageError for a layout that cannot be and sizes that make no sense, StoreError for what cannot be
    read.
    """
    if options.version is not None:
        parse_version(options.version)
    if options.file_size is not None and not LEAST_FILE_SIZE <= options.file_size < 1 << 31:
        raise UsageError(
            f"commit log files of {count_of(options.file_size, 'byte')}: the minimum is {LEAST_FILE_SIZE:,}"
        )
    sources, skipped = list_sources(paths)
    found = carve_all(sources)
    bases = [-1 if source.base_offset is None else source.base_offset for source in sources]
    with phase("judging the records"):
        confidence = judge(found, np.array(bases, np.int64))
        origin = _origin(paths, options.version)
        file_size = options.file_size or _file_size(sources, origin)
        fates, placement, note = _place(found, confidence, options, file_size)
        return finish_story(options, sources, skipped, found, confidence, fates, placement, note, origin)


def finish_story(
    options: SalvageOptions,
    sources: Sequence[SourceFile],
    skipped: Sequence[SkippedFile],
    found: CarvedRecords,
    confidence: Confidence,
    fates: Any,
    placement: Placement,
    note: str,
    origin: Store | None,
) -> Salvage:
    """Account for every byte and every queue. Raises StoreError."""
    gaps = _gaps(sources, found)
    story = Story(
        sources,
        skipped,
        found,
        confidence,
        fates,
        placement,
        gaps,
        account_queues(found, placement.rows),
    )
    version = options.version or (None if origin is None else str(origin.dialect.version))
    if version is None:
        has_crc = bool((found["traits"][placement.rows] & int(Trait.PROPERTY_CRC)).any())
        version = WRITTEN_NAME if has_crc else ""
    return Salvage(options, story, version, note, origin)


def carve_all(sources: Sequence[SourceFile]) -> CarvedRecords:
    """Every record of these files. Raises StoreError."""
    carver = Carver()
    with phase("carving records", sum(source.size for source in sources)):
        for number, source in enumerate(sources):
            with FileReader(source.path) as reader, part(source.size):
                carver.carve(reader, number)
    return carver.found


def _gaps(sources: Sequence[SourceFile], found: CarvedRecords) -> list[list[RecordGap]]:
    bounds = np.searchsorted(found["source"], np.arange(len(sources) + 1))
    gaps = []
    for number, source in enumerate(sources):
        rows = np.arange(bounds[number], bounds[number + 1])
        gaps.append(find_gaps(source, found, rows))
        prove_tiling(source, found, rows, gaps[-1])
    return gaps


def _origin(paths: Sequence[Path], version: str | None) -> Store | None:
    """The first of the paths that is a store: its sizes, version and config are taken over.

    The store is read as `version` where that is given.
    """
    for path in paths:
        if (path / LOG_DIRECTORY).is_dir() or any(place.is_dir() for place in path.glob("dledger-*/data")):
            with suppress(StoreError):
                return open_store(path, version=version)
    return None


def _file_size(sources: Sequence[SourceFile], origin: Store | None) -> int:
    """The size of a commit log file, from the store or the names of the files; else the default."""
    if origin is not None and origin.commitlog.files:
        return origin.geometry.commitlog_file_size
    starts = sorted({source.base_offset for source in sources if source.base_offset is not None})
    steps = {high - low for low, high in pairwise(starts)}
    sizes = {source.size for source in sources if source.base_offset is not None}
    fitting = [size for size in sizes if size >= LEAST_FILE_SIZE and all(step % size == 0 for step in steps)]
    if fitting:
        return max(fitting)
    return GEOMETRY_DEFAULTS["commitlog_file_size"]


def _place(
    found: CarvedRecords, confidence: Confidence, options: SalvageOptions, file_size: int
) -> tuple[Any, Placement, str]:
    """The fates, the places and why the layout is what it is."""
    note = "chosen by the user"
    if options.layout != "pack":
        fates = choose(found, confidence, options.level, in_place=True)
        placed = place_kept(found, np.flatnonzero(fates == Fate.TAKEN), file_size)
        if isinstance(placed, str):
            if options.layout == "keep":
                raise UsageError(f"the records cannot keep their physical offsets: {placed}")
            note = placed
        elif options.layout == "keep":
            return fates, placed, note
        elif skipped_count := count_skipped(found, placed):
            skipped_text = count_of(skipped_count, "record")
            note = f"at the old offsets brokers would skip {skipped_text} after holes in the queues"
        else:
            return fates, placed, "the physical offsets fit"
    fates = choose(found, confidence, options.level, in_place=False)
    fitting = np.zeros(len(found), np.bool_)
    fitting[fits_file(found, file_size)] = True
    fates[(fates == Fate.TAKEN) & ~fitting] = Fate.TOO_LARGE
    return fates, place_packed(found, np.flatnonzero(fates == Fate.TAKEN), file_size), note


def new_store(salvage: Salvage) -> NewStore:
    """What a salvage is to write."""
    story, asked = salvage.story, salvage.options
    return NewStore(
        story.sources,
        story.found,
        story.placement,
        salvage.version,
        salvage.origin,
        asked.version,
        asked.broker_conf,
        asked.delay_levels,
    )


def default_ledger(into: Path) -> Path:
    """Where the ledger goes unless another place is named: next to the store."""
    return into.with_name(f"{into.name}.ledger.jsonl")


def write_store(
    salvage: Salvage,
    into: Path,
    *,
    ledger_path: Path | None = None,
) -> SalvagedStore:
    """Write the store and its ledger; both appear when they are whole.

    Raises UsageError if there is nothing to write, StoreError if something cannot be read or written or is in
    the way.
    """
    if not len(salvage.story.placement.rows):
        raise UsageError("the sources hold no usable record: nothing to write")
    into = Path(os.path.abspath(into))  # noqa: PTH100 - the last part need not exist
    ledger = ledger_path or default_ledger(into)
    done = False
    side: SideFile | None = None
    try:
        clear_side_file(ledger, into)
        demand_free(into)
        if os.path.lexists(ledger) and not is_special(ledger):
            text = "exists without its store: move it away and try again"
            raise StoreError(text, path=str(ledger))
        side = SideFile(ledger, "utf-8")
        with building_directory(into, replace=False, sync=salvage.options.sync) as building:
            report, starts = fill_store(building, new_store(salvage))
            head = {**to_document(salvage.head()), "into": os.fspath(into)}
            side.stream.writelines(line + "\n" for line in ledger_lines(salvage.story, head))
            side.complete(sync=True)
            side.publish()  # before the store appears: it never is without its ledger
        done = True
    except OSError as error:
        raise StoreError(
            f"cannot be written: {error.strerror or error}", path=str(error.filename or into)
        ) from error
    finally:
        if side is not None:
            side.end(keep=done)
    return SalvagedStore(salvage, into, ledger, report, starts)


__all__ = [
    "Salvage",
    "SalvageOptions",
    "SalvagedStore",
    "carve_all",
    "default_ledger",
    "find_records",
    "finish_story",
    "write_store",
]
