"""What every planner needs: actions out of findings, what is known of the log's files, ranges of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.arguments import NONE, Arguments, Name
from rocketfsck.repair.plan.model import Action, Extent, Loss, Notice
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import TREES, Finding
from rocketfsck.verify.tasks.task import is_aggregate

SMALL_SIZE = 16 << 20
"""Bytes of a file that is hashed as a whole before it is changed; of a larger one only what is relied on."""

Span = tuple[int, int]


def answer(
    name: str,
    target: str,
    note: str,
    findings: Iterable[Finding],
    *,
    arguments: Arguments = NONE,
    preconditions: Sequence[Extent] = (),
    losses: Sequence[Loss] = (),
    gains: Mapping[str, int] | None = None,
    write_byte_count: int = 0,
    notices: Iterable[Notice | None] = (),
) -> Action:
    """An action that answers these findings."""
    kept = list(findings)
    return Action(
        name,
        target,
        note,
        arguments,
        tuple(dict.fromkeys(finding.fingerprint for finding in kept)),
        tuple(sorted({finding.rule for finding in kept})),
        tuple(preconditions),
        tuple(losses),
        dict(gains or {}),
        write_byte_count,
        notices=tuple(item for item in notices if item is not None),
    )


def notice(kind: str, count: int) -> Notice | None:
    """A notice of something that is noticed so many times; None for never."""
    return Notice(kind, count) if count > 0 else None


def by_file(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Findings by the file they are in, in the order of the files' names."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.where.file, []).append(finding)
    return dict(sorted(found.items()))


def rules_in(scene: PlanScene) -> set[str]:
    """The ids of the rules that the report has findings of."""
    return {rule for rule, count in scene.report.counts.items() if count}


def one_by_one(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that name their place; those that only count others are left out."""
    return [finding for finding in findings if not is_aggregate(finding)]


def of_file(findings: Iterable[Finding], name: str) -> list[Finding]:
    """The findings that name their place, and name it in this file."""
    return [finding for finding in one_by_one(findings) if finding.where.file == name]


def also_answering(action: Action, findings: Iterable[Finding]) -> Action:
    """The same action, answering these findings, too."""
    extra = list(findings)
    return replace(
        action,
        why=tuple(dict.fromkeys((*action.why, *(finding.fingerprint for finding in extra)))),
        rules=tuple(sorted({*action.rules, *(finding.rule for finding in extra)})),
    )


def number(values: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A value of a finding that should be an integer."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def record_count(scene: PlanScene, file: str) -> int:
    """How many live records the report counts in a commit log file."""
    totals = scene.report.regions.get(file, ())
    return sum(total.record_count for total in totals if total.kind == "records")


def log_file(store: Store, relative: str) -> MappedFile | None:
    """The commit log file of this name."""
    return next((file for file in store.commitlog.files if file.relative == relative), None)


def goes_on_after(scene: PlanScene, file: MappedFile) -> bool:
    """Whether a later file of the commit log has live records."""
    start = file.start_offset or 0
    return any(
        (other.start_offset or 0) > start and record_count(scene, other.relative) > 0
        for other in scene.store.commitlog.files
    )


def ahead_of_all(scene: PlanScene, file: MappedFile) -> bool:
    """Whether no earlier file of the commit log has live records."""
    start = file.start_offset or 0
    return not any(
        (other.start_offset or 0) < start and record_count(scene, other.relative) > 0
        for other in scene.store.commitlog.files
    )


def acted_log_file(store: Store, action: Action) -> MappedFile:
    """The commit log file that an action is about; raises StoreError where it is not there."""
    file = log_file(store, action.target)
    if file is None:
        raise StoreError("is no longer a commit log file", path=action.target)
    return file


def merge_ranges(ranges: Iterable[Span]) -> list[Span]:
    """The same numbers in the fewest half-open ranges, in order."""
    merged: list[Span] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def is_within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Whether one of these ranges, which are in order and apart, has all of `start:end`."""
    place = bisect_right(spans, start, key=itemgetter(0)) - 1
    return place >= 0 and end <= spans[place][1]


def whole_file(scene: PlanScene, file: str) -> tuple[Extent, ...]:
    """The precondition that a file is as it was; of a large one its first bytes. () if it cannot be read."""
    try:
        with FileReader(scene.path_of(file)) as reader:
            size = reader.size
        return (scene.extent(file) if size <= SMALL_SIZE else scene.extent(file, 0, SMALL_SIZE),)
    except StoreError:
        return ()


def in_the_way(
    scene: PlanScene,
    places: Collection[str],
    rules: Collection[str] = (RuleName.STRAY,),
    note: str = "move the file aside: a directory belongs in its place",
) -> Iterator[Action]:
    """What other things than belong there have the names of what will be built: `rules` say so."""
    for finding in one_by_one(scene.findings):
        name = finding.where.file
        if finding.rule in rules and name in places:
            yield answer(
                "move-stray",
                name,
                note,
                [finding],
                preconditions=whole_file(scene, name),
            )


def queue_of(finding: Finding) -> Name | None:
    """The queue that a finding is about, by its place or by its file; None where neither says."""
    where = finding.where
    if where.topic is not None and where.queue_id is not None:
        return where.topic, where.queue_id
    parts = where.file.split("/")
    if len(parts) >= 3 and parts[0] in (*TREES.values(), "consumequeue_ext"):
        try:
            return parts[1], int(parts[2])
        except ValueError:
            return None
    return None


def files_of_queues(scene: PlanScene, queues: Iterable[ConsumeQueue]) -> list[Extent]:
    """The preconditions that all files of these queues are as they were."""
    return [
        extent
        for queue in queues
        for file in (*queue.files, *(queue.ext.files if queue.ext is not None else ()))
        for extent in whole_file(scene, file.relative)
    ]
