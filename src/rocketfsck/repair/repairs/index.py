"""Repairs of index files: all built again from the log, links made again, headers recounted.

    entries, their number or order are wrong    build index/ again from the log       rebuild-index
    only links and slots are wrong              put the file's own entries again      relink-index
    only fields of the header are wrong         write what the file says              rewrite-index-header

Fault catalogue I1 to I10; reference 4.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import indexfile
from rocketfsck.reader.index import read_entry, readable_headers
from rocketfsck.repair.build.index import build_index, relink_index_file
from rocketfsck.repair.plan import arguments as plan_arguments
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import (
    also_answering,
    answer,
    by_file,
    in_the_way,
    notice,
    number,
    one_by_one,
    whole_file,
)
from rocketfsck.repair.repairs.checkpoint import CHECKPOINT_NAME, checkpoint_of_crash, keep_index
from rocketfsck.repair.repairs.misnamed import is_misnamed, lacks_its_log
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader, first_unequal
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.rules.catalog import RULES

LINKS = frozenset(f"IX{rule:03}" for rule in range(5, 14))
"""Rules that only slots and links break: entries are as they should be."""

HEADERS = frozenset(
    {
        RuleName.INDEX_SLOT_COUNT,
        RuleName.INDEX_SLOT_COUNT_KIND,
        RuleName.INDEX_HEADER_RANGE,
        RuleName.INDEX_ENTRY_BEHIND_COUNT,
        RuleName.INDEX_ENTRY_ZERO,
    }
)
"""Rules about what a header says, which a rebuilding answers as well."""

REBUILT = frozenset({RuleName.INDEX_ENTRY_BEHIND_COUNT, RuleName.ENTRY_OF_DAMAGED_RECORD})
"""Rules, besides those whose repair says so, that only a rebuilding answers."""

_EARLIEST_ZONE = "Etc/GMT+12"
"""The time zone whose clocks show the earliest time. In which one the broker names files is not known: a new
file named by this clock sorts before every file that the broker makes from now on."""
_SIZES = ("slot_count", "entry_count")
_COUNTS = ("hashSlotCount", "indexCount")


def rebuild_indexes(scene: PlanScene, findings: Sequence[Finding] = ()) -> Iterator[Action]:
    """The one action that builds all index files again. The same whichever finding asks for it.

    An index of another log is left alone.
    """
    if is_misnamed(scene) or lacks_its_log(scene):
        return
    asked = {id(finding) for finding in findings}
    why = [
        finding
        for finding in scene.findings
        if _asks(finding.rule)
        or finding.rule in LINKS
        or finding.rule == RuleName.ENTRY_IN_MISSING_SEGMENT
        or id(finding) in asked
    ]
    start = first_wrong(scene, [*why, *(found for found in scene.findings if found.rule in HEADERS)])
    files = scene.store.indexes[start.number :] if start is not None else scene.store.indexes
    relied = scene.store.indexes[start.number - 1 :] if start is not None else files
    size = scene.store.geometry.index_file_size
    records = sum(
        number(finding.found, "record_count")
        for finding in why
        if finding.rule in (RuleName.RECORD_UNINDEXED, RuleName.INDEX_ABSENT, RuleName.INDEX_GONE)
    )
    keys = sum(finding.rule == RuleName.KEY_UNINDEXED for finding in why)
    losses = [
        Loss("entry", number(finding.found, "entry_count"), valid=False)
        for finding in one_by_one(scene.findings)
        if finding.rule
        in (
            RuleName.ENTRY_BEYOND_LOG,
            RuleName.ENTRY_DANGLING,
            RuleName.ENTRIES_EXPIRED,
            RuleName.ENTRY_OF_DAMAGED_RECORD,
            RuleName.ENTRY_IN_MISSING_SEGMENT,
        )
    ]
    yield answer(
        "rebuild-index",
        "index",
        "rebuild the index from the log"
        + (f", from {start.from_offset} on" if start is not None else "")
        + f" (replaces {count_of(len(files), 'file')})",
        why,
        arguments=plan_arguments.IndexPartArgument()
        if start is None
        else plan_arguments.IndexPartArgument(start.from_offset, files[0].name if files else ""),
        preconditions=[
            *(extent for file in relied for extent in whole_file(scene, file.relative)),
            *checkpoint_of_crash(scene),
        ],
        losses=losses,
        gains={"record": records} if records else {},
        notices=[notice("found-by-key-again", records + keys)],
        write_byte_count=size * max(len(files), 1),
    )


@dataclass(frozen=True, slots=True)
class RebuildStart:
    """Where a rebuilding begins: the number of the first file that is made again (that of the last file, plus
    one, where only entries after it are missing) and the physical offset of its first record."""

    number: int
    from_offset: int


def first_wrong(scene: PlanScene, findings: Iterable[Finding]) -> RebuildStart | None:
    """The first file that findings are about; None where all files must be made again.

    A file before it must be sound, and end with a record whose keys are all in it.
    """
    files = scene.store.indexes
    headers = {file.relative: header for file, header in readable_headers(files)}
    if len(headers) < len(files) or any(header.entry_count == 0 for header in headers.values()):
        return None
    ends = [headers[file.relative].end_physical_offset for file in files]
    if ends != sorted(ends):
        return None
    number = len(files)
    for finding in findings:
        number = min(number, _number_of(files, headers, finding))
    while number > 0:
        before = ends[number - 1]
        if number == len(files) or min(_first_offsets(scene, files[number], headers)) > before:
            return RebuildStart(number, before + 1)
        number -= 1
    return None


def _number_of(
    files: Sequence[IndexFile], headers: dict[str, indexfile.IndexHeader], finding: Finding
) -> int:
    """The number of the first file that a finding says is wrong; 0 where it does not say."""
    where = finding.where
    names = [file.relative for file in files]
    if where.file in names:
        return names.index(where.file)
    if (
        finding.rule not in (RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED)
        or where.physical_offset is None
    ):
        return 0
    ends = (headers[name].end_physical_offset >= where.physical_offset for name in names)
    return next((number for number, behind in enumerate(ends) if behind), len(files))


def _first_offsets(
    scene: PlanScene, file: IndexFile, headers: dict[str, indexfile.IndexHeader]
) -> tuple[int, int]:
    """Where a file begins by its header, and by its first entry."""
    try:
        with FileReader(file.path) as reader:
            entry = read_entry(reader, 1, scene.store.geometry.slot_count)
    except StoreError:
        return -1, -1
    return headers[file.relative].begin_physical_offset, entry.physical_offset if entry is not None else 0


def _asks(rule: str) -> bool:
    asked = RULES[rule].repair == "rebuild-index" and RULES[rule].severity > Severity.INFO
    return rule in REBUILT or (asked and rule not in LINKS)


def is_rebuilt(scene: PlanScene) -> bool:
    """Whether the index will be built again."""
    return any(_asks(finding.rule) for finding in scene.findings)


def plan_rebuild(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Relink single files where nothing else is wrong; else build the index again."""
    if is_rebuilt(scene) or any(finding.rule not in LINKS for finding in findings):
        yield from in_the_way(scene, ("index",))
        yield from rebuild_indexes(scene, findings)
        return
    if is_misnamed(scene):
        return
    for name, found in by_file(findings).items():
        file = _index_file(scene, name)
        if file is None:
            yield from rebuild_indexes(scene)
            continue
        yield answer(
            "relink-index",
            name,
            "rebuild links, slots and header from the file's own entries",
            found,
            preconditions=whole_file(scene, name),
            write_byte_count=file.size,
        )


def _index_file(scene: PlanScene, name: str) -> IndexFile | None:
    return next((file for file in scene.store.indexes if file.relative == name), None)


def act_rebuild(scene: ActScene, _action: Action, arguments: plan_arguments.IndexPartArgument) -> None:
    """Build index/ in a scratch directory; files that come out the same stay."""
    store = scene.reopen()
    scratch = scene.tree.scratch()
    names = [file.name for file in store.indexes]
    build_index(store, scratch, from_offset=arguments.from_offset, time_zone=_EARLIEST_ZONE)
    made = scratch / "index"
    built = sorted(path.name for path in made.iterdir()) if made.is_dir() else []
    kept = [
        name
        for name in built
        if name in names and _same(os.fspath(made / name), scene.tree.place(f"index/{name}"))
    ]
    first = arguments.first_file
    gone = [name for name in names if arguments.from_offset is None or (first and name >= first)]
    for name in sorted({*gone, *(name for name in names if name in built)}):
        if name not in kept:
            scene.tree.set_aside(f"index/{name}")
    for name in built:
        if name not in kept:
            scene.tree.adopt(made / name, f"index/{name}")
    keep_index(scene)


def _same(first: str, second: str) -> bool:
    with FileReader(first) as left, FileReader(second) as right:
        return left.size == right.size and first_unequal(left, right) is None


def act_relink(scene: ActScene, action: Action, _arguments: plan_arguments.Arguments) -> None:
    """Write the file again out of its own entries. The time of the file stays."""
    store = scene.reopen()
    file = next((item for item in store.indexes if item.relative == action.target), None)
    if file is None:
        raise StoreError("is no longer an index file", path=action.target)
    target = scene.tree.scratch() / file.name
    relink_index_file(store, file, target)
    scene.tree.adopt(target, action.target)
    scene.tree.set_mtime(action.target, file.mtime_ns)


def plan_header(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Fields of headers, and entry 0; what a file has after its indexCount asks for a rebuilding."""
    if is_misnamed(scene):
        return
    if is_rebuilt(scene):
        mine = [finding for finding in findings if finding.rule in HEADERS]
        for action in rebuild_indexes(scene):
            yield also_answering(action, mine)
        return
    for name, found in by_file(one_by_one(findings)).items():
        file = _index_file(scene, name)
        values = _fields(scene, found)
        if file is None or not values:
            continue
        yield answer(
            "rewrite-index-header",
            name,
            f"correct {', '.join(sorted(values))} by the entries and records",
            found,
            arguments=plan_arguments.HeaderValues(
                tuple(
                    plan_arguments.HeaderValue(field, values[field])
                    for field in plan_arguments.HEADER_FIELDS
                    if field in values
                ),
                empty_entry0="entry0" in values,
            ),
            preconditions=[scene.extent(name, 0, min(indexfile.INDEX_HEADER_SIZE, file.size))],
            write_byte_count=indexfile.INDEX_HEADER_SIZE,
        )


def _fields(scene: PlanScene, findings: Iterable[Finding]) -> dict[str, int]:
    """The values that header fields must have, by their names; "entry0" to empty entry 0."""
    values: dict[str, int] = {}
    for finding in findings:
        if finding.rule in (RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND):
            counts_all = scene.store.dialect.counts_entries_in_hash_slot_count
            values["hashSlotCount"] = number(finding.found, "entry_count" if counts_all else "slot_count")
        elif finding.rule == RuleName.INDEX_HEADER_RANGE:
            field, value = finding.found.get("field"), finding.expected.get("value")
            if isinstance(field, str) and isinstance(value, int):
                values[field] = value
        elif finding.rule == RuleName.INDEX_ENTRY_ZERO:
            values["entry0"] = 0
    return values


def act_header(scene: ActScene, action: Action, arguments: plan_arguments.HeaderValues) -> None:
    """Write the fields."""
    store = scene.reopen()
    data = scene.tree.read(action.target, 0, indexfile.INDEX_HEADER_SIZE)
    try:
        indexfile.decode_header(data)
    except FormatError as error:
        raise StoreError("has no header", path=action.target) from error
    for item in arguments.fields:
        size = 4 if item.field in _COUNTS else 8
        try:
            data = item.value.to_bytes(size, "big", signed=True)
        except OverflowError as error:
            raise StoreError(
                f"{item.field} cannot have the value {item.value}", path=action.target
            ) from error
        scene.tree.write(action.target, indexfile.HEADER.offset(item.field), data)
    if arguments.empty_entry0:
        scene.tree.write(
            action.target, indexfile.entry_pos(0, store.geometry.slot_count), bytes(indexfile.ENTRY_SIZE)
        )


def _places(action: Action) -> set[str]:
    """The directory, a file in it, and the checkpoint where a start after a crash goes by it."""
    changed = {extent.file for extent in action.preconditions if extent.file == CHECKPOINT_NAME}
    return {"index", "index/0", *changed}


ROWS: tuple[Row, ...] = (
    Repair(
        "rebuild-index",
        400,
        "rebuild the index from the log",
        plan_rebuild,
        act_rebuild,
        plan_arguments.IndexPartArgument,
        areas=("index", "commitlog"),
        writes_by=_SIZES,
        traits=("counts_entries_in_hash_slot_count", "tag_entries"),
        answers=(
            RuleName.INDEX_SLOT_COUNT,
            RuleName.INDEX_SLOT_COUNT_KIND,
            RuleName.INDEX_HEADER_RANGE,
            RuleName.INDEX_ENTRY_BEHIND_COUNT,
            RuleName.INDEX_ENTRY_ZERO,
            RuleName.ENTRY_IN_MISSING_SEGMENT,
        ),
        # out of a damaged log it would be another index than out of the repaired one
        needs=("salvage-log",),
        places=_places,
    ),
    Repair(
        "relink-index",
        410,
        "rebuild links, slots and header of an index file",
        lambda _s, _f: (),
        act_relink,
        plan_arguments.Arguments,
        answers=tuple(sorted(LINKS)),
        moot_after=("rebuild-index",),
        writes_by=_SIZES,
        traits=("counts_entries_in_hash_slot_count",),
    ),
    Repair(
        "rewrite-index-header",
        420,
        "correct counts and ranges in an index file's header",
        plan_header,
        act_header,
        plan_arguments.HeaderValues,
        moot_after=("rebuild-index",),
        writes_by=_SIZES,
        traits=("counts_entries_in_hash_slot_count",),
    ),
)
