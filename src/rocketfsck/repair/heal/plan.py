"""A plan to repair one store from another copy of it: each record is taken from where it is valid.

    compare -> what is taken -> actions heal-log -> the log as it will be, tried apart -> what follows of it

A is the store that is repaired, B is only read. A's valid records stay; where both are valid and differ, A's
stay unless B is preferred. What comes back asks for queue units, index entries and a checkpoint: these
actions are those of the ordinary planner, made from a check of the store as the heal will leave it. So a plan
says only what was tried. Fault catalogue, H1 and H2.

What follows of a heal: the store is looked at as the heal will leave it, and the rest is planned of that.

Of the ordinary planner's actions those are taken that bring queues, index and checkpoint in line with the
log, and those that answer what only came up with the records of the other copy. All else is left to
`rocketfsck plan`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck._version import __version__
from rocketfsck.common.outputs import scratch_parent
from rocketfsck.common.wording import count_of
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.progress import phase
from rocketfsck.repair.compare.compare import Side, describe_sides, group_stores, refuse_entries
from rocketfsck.repair.compare.records import Files, Part, files_of, range_of
from rocketfsck.repair.heal.records import CONFLICT_LIMIT, KEPT, HealResult, HealTask, SlotPart, heal_group
from rocketfsck.repair.plan import planning
from rocketfsck.repair.plan.arguments import CopiedRanges, LogCut, RangeArgument
from rocketfsck.repair.plan.law import dependents, judge
from rocketfsck.repair.plan.model import Action, Conflict, Extent, Loss, Notice, Plan, Unanswered
from rocketfsck.repair.plan.table import PlanScene, hash_bytes
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.repair.repairs.answers import whole_file
from rocketfsck.repair.repairs.misnamed import is_unsettled
from rocketfsck.repair.repairs.queueends import cut_queues
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.verify.finding import Finding, Level, Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.run import check_store

DERIVED = frozenset(
    {
        "cut-queue",
        "rebuild-queue",
        "rebuild-index",
        "relink-index",
        "rewrite-index-header",
        "write-checkpoint",
        "save-index",
    }
)
"""Repairs of what brokers derive from the log."""

LOG = frozenset(
    {"salvage-log", "fence-gap", "cut-log", "flip-bit", "zero-stale-tail", "trim-segment", "write-blank"}
)
"""Repairs of damage in the log. What neither copy has is left: a third one may have it."""

_OF_SOUND_LOGS = frozenset({"finish-recovery"})
_ROUND_LIMIT = 4

LEFT = "this plan has only what the other copy can heal; for the rest run rocketfsck plan"
BROUGHT = "the records of the other copy bring this finding: see rocketfsck explain {rule}"


@dataclass(frozen=True, slots=True)
class Followed:
    """The actions of a heal with the findings that they answer, all that follows, and what is left."""

    actions: tuple[Action, ...]
    unanswered: tuple[Unanswered, ...]


def plan_rest(
    scene: PlanScene,
    directory: Path,
    actions: Sequence[Action],
    level: Level,
) -> Followed:
    """Try actions in an empty directory, plan what is to be done then, and try that. Raises StoreError."""
    before = {finding.fingerprint: finding for finding in _bad(scene.findings)}
    if not actions:
        return Followed((), tuple(_left(before.values(), LEFT)))
    with TriedStore(scene.store, directory, actions) as view:
        return _plan_rest(scene, view, before, actions, level)


def _plan_rest(
    scene: PlanScene,
    view: TriedStore,
    before: Mapping[str, Finding],
    actions: Sequence[Action],
    level: Level,
) -> Followed:
    following: list[Action] = []
    todo: Sequence[Action] = actions
    for _ in range(_ROUND_LIMIT):
        view.carry_out(todo)
        store = view.reopen()
        report = check_store(store, CheckOptions(level))
        found = {finding.fingerprint: finding for finding in _bad(report.findings, view)}
        planned = planning.make_plan(store, report).actions
        known = {(action.name, action.target) for action in following}
        todo = [
            action
            for action in _wanted(planned, found.keys() - before.keys())
            if (action.name, action.target) not in known
        ]
        if not todo:
            break
        following += todo
    healed = [finding for name, finding in before.items() if name not in found]
    return Followed(
        (*_answering(actions, healed), *(_moved(action, scene, view, found) for action in following)),
        (
            *_left([finding for name, finding in found.items() if name in before], LEFT),
            *_left([finding for name, finding in found.items() if name not in before], BROUGHT),
        ),
    )


def _answering(actions: Sequence[Action], findings: Iterable[Finding]) -> list[Action]:
    """The actions with the findings that go by them: those of their file, and the first with all others."""
    own: dict[str, list[Finding]] = {action.target: [] for action in actions}
    for finding in findings:
        own[finding.where.file if finding.where.file in own else actions[0].target].append(finding)
    return [
        replace(
            action,
            why=tuple(dict.fromkeys(finding.fingerprint for finding in own[action.target])),
            rules=tuple(sorted({finding.rule for finding in own[action.target]})),
        )
        for action in actions
    ]


def _wanted(planned: Sequence[Action], fresh: Collection[str]) -> list[Action]:
    """What is done of the ordinary plan. Damage that is left in the log keeps what hangs on it as it is, if
    nothing else asks for a change there. What relies on an action that is left out is left out, too."""
    damaged = any(action.name in LOG for action in planned)
    allowed = [
        action
        for action in planned
        if action.name not in LOG and not (damaged and action.name in _OF_SOUND_LOGS)
    ]
    asked = [action for action in allowed if any(name in fresh for name in action.why)]
    wanted = [
        action for action in allowed if action in asked or (action.name in DERIVED and (asked or not damaged))
    ]
    left = [action for action in planned if action not in wanted]
    unfit = [action for action, _ in dependents(wanted, left, planning.all_repairs())]
    return [action for action in wanted if action not in unfit]


def _bad(findings: Iterable[Finding], view: TriedStore | None = None) -> list[Finding]:
    """The findings above info, with the names of files that the store has for them."""
    found = [finding for finding in findings if RULES[finding.rule].severity > Severity.INFO]
    if view is None:
        return found
    return [
        replace(finding, where=replace(finding.where, file=view.name_of(finding.where.file)))
        for finding in found
    ]


def _moved(action: Action, scene: PlanScene, view: TriedStore, found: Collection[str]) -> Action:
    """An action that was planned for the tried store, for the store itself. What an action before it changes
    is not a precondition: it is not yet so when the plan is applied. Nor does it answer what is still
    found."""
    kept = (replace(extent, file=view.name_of(extent.file)) for extent in action.preconditions)
    return replace(
        action,
        target=view.name_of(action.target),
        preconditions=tuple(extent for extent in kept if _holds(scene, extent)),
        why=tuple(name for name in action.why if name not in found),
    )


def _holds(scene: PlanScene, extent: Extent) -> bool:
    if extent.sha256 is None:
        return not os.path.lexists(scene.path_of(extent.file))
    try:
        return scene.extent(extent.file, extent.start, extent.end) == extent
    except StoreError:
        return False


def _left(findings: Iterable[Finding], reason: str) -> Iterable[Unanswered]:
    for finding in findings:
        text = reason.format(rule=finding.rule)
        yield Unanswered(finding.fingerprint, finding.rule, describe(finding), text, finding.count)


PARTED = "the histories diverge earlier: the copies have nothing in common after their first difference"


@dataclass(frozen=True, slots=True)
class HealOptions:
    """`prefer_b`: B's records count where both are valid and differ. `work_dir` is where the result is tried
    (default: the system's directory for temporary files); `level` is as for a check."""

    prefer_b: bool = False
    level: Level = "full"
    work_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is taken from B, file by file, what is not, and where A's log is cut (None: not at all)."""

    parts: tuple[SlotPart, ...]
    conflicts: tuple[Conflict, ...]
    conflict_count: int
    cut_offset: int | None


def plan_heal(a: Store, b: Store, options: HealOptions | None = None) -> tuple[Plan, Report]:
    """The plan to repair store A from store B, and the report of A that it was made with.

    Raises UsageError where the two are not copies of one log, or A must be repaired otherwise first;
    StoreError if something cannot be read, or the result cannot be tried.
    """
    options = options or HealOptions()
    engine = LocalEngine()
    refuse_entries(a, b)
    report = check_store(a, CheckOptions(options.level))
    scene = planning.full_scene(a, report)
    _refuse_unfit(scene)
    sides = describe_sides(a, b, engine)
    groups, _ = group_stores(a, b, sides, engine)
    size = a.geometry.commitlog_file_size
    tasks = [HealTask(group, options.prefer_b, sides[0].start_offset % size, size) for group in groups]
    found: list[HealResult | None] = [None] * len(tasks)
    with phase("comparing the records"):
        for outcome in engine.run(heal_group, tasks):
            found[outcome.index] = outcome.result
    chosen = choose([result for result in found if result is not None], sides, prefer_b=options.prefer_b)
    _refuse_sizes(a, b)
    actions = [*_heal_actions(scene, files_of(b), chosen), *_cuts(scene, chosen)]
    if chosen.cut_offset is not None:
        actions += cut_queues(scene, chosen.cut_offset)
    with (
        phase("trying the repair"),
        tempfile.TemporaryDirectory(
            prefix="rocketfsck-", dir=options.work_dir or scratch_parent()
        ) as directory,
    ):
        rest = plan_rest(scene, Path(directory), actions, options.level)
    return _plan(scene, rest, chosen), report


def _refuse_unfit(scene: PlanScene) -> None:
    """Raises UsageError where A's files are not the ones that its log will have."""
    store, size = scene.store, scene.store.geometry.commitlog_file_size
    starts = [file.start_offset for file in files_of(store) if file.start_offset is not None]
    odd = any((start - starts[0]) % size for start in starts) or len({*starts}) < len(starts)
    if odd or any(file.size > size for file in files_of(store)) or is_unsettled(scene):
        raise UsageError(
            f"{store.root}: the commit log has files with wrong names or lengths; repair them first: "
            f"rocketfsck plan {store.root}"
        )


def _refuse_sizes(a: Store, b: Store) -> None:
    """Raises UsageError where the files of the two have different sizes: one of them was cut, or guessed."""
    sizes = a.geometry.commitlog_file_size, b.geometry.commitlog_file_size
    if a.commitlog.files and b.commitlog.files and sizes[0] != sizes[1]:
        raise UsageError(
            f"{a.root}: commit log files of {sizes[0]:,} bytes, {b.root}: of {sizes[1]:,}; copies of one log "
            "have files of the same size. Put the size of the cut ones right first, with the broker's "
            f"settings: rocketfsck fix --preen --broker-conf FILE {a.root}"
        )


def choose(results: Sequence[HealResult], sides: tuple[Side, Side], *, prefer_b: bool) -> Chosen:
    """What is taken, of what was found group by group in order. Raises UsageError for two different logs.

    Behind the last record that both have, a conflict says that the histories part there.
    """
    common = [number for number, result in enumerate(results) if result.common_end is not None]
    if not common and all(side.end_offset > side.start_offset for side in sides):
        raise UsageError(
            f"{sides[0].path} and {sides[1].path} have no record in common: they are copies of different logs"
        )
    last = common[-1] if common else 0
    parting = next(
        (number for number in range(last, len(results)) if results[number].divergence is not None), None
    )
    parts: list[SlotPart] = []
    conflicts: list[Conflict] = []
    count = 0
    for number, result in enumerate(results):
        for part in result.parts:
            refused = parting is not None and (number > parting or (number == parting and part.behind))
            if not refused or prefer_b:
                parts.append(part)
            elif part.record_count:
                count += part.record_count
                conflicts.append(Conflict(part.record_count, part.ranges[0][0], part.ranges[-1][1], PARTED))
        count += sum(result.conflict_counts)
        conflicts += [conflict for _, conflict in result.conflicts]
    conflicts.sort(key=lambda conflict: conflict.start_offset)
    end = sides[1].end_offset
    cut = end if prefer_b and parting is not None and end < sides[0].end_offset else None
    return Chosen(tuple(parts), tuple(conflicts[:CONFLICT_LIMIT]), count, cut)


def _heal_actions(scene: PlanScene, others: Files, chosen: Chosen) -> Iterator[Action]:
    """One action for each file of A that gets something."""
    by_start: dict[int, list[SlotPart]] = {}
    for part in chosen.parts:
        by_start.setdefault(part.start_offset, []).append(part)
    for start, parts in sorted(by_start.items()):
        spans = [piece for part in parts for span in part.ranges for piece in _split(span, others)]
        yield _heal_action(scene, start, parts, sorted(spans))


def _split(span: Part, others: Files) -> Iterator[tuple[int, int, MappedFile]]:
    """A range in parts that are in one file of B each."""
    start, end = span
    for file in others:
        low, high = range_of(file)
        if low <= start < high and start < end:
            stop = min(end, high)
            yield start, stop, file
            start = stop


def _heal_action(
    scene: PlanScene, start: int, parts: Sequence[SlotPart], spans: Sequence[tuple[int, int, MappedFile]]
) -> Action:
    store, size = scene.store, scene.store.geometry.commitlog_file_size
    file = next((item for item in store.commitlog.files if item.start_offset == start), None)
    name = _new_name(store, start) if file is None else file.relative
    count = sum(part.record_count for part in parts)
    sources, checked = [], []
    for low, high, other in spans:
        path, base = os.path.realpath(other.location), other.start_offset or 0
        sources.append(Extent(path, low - base, high - base, hash_bytes(path, low - base, high - base)))
        if file is not None and low - start < file.size:
            checked.append(scene.extent(name, low - start, min(high - start, file.size)))
    if file is None:
        checked.append(Extent(name, 0, None, None))
    elif spans[-1][1] - start > file.size:
        checked.append(scene.extent(name))
    what = count_of(count, "record") if count else "the BLANK that ends the file"
    origin = os.path.dirname(os.path.dirname(sources[0].file))  # noqa: PTH120 - names may be any bytes
    return Action(
        "heal-log",
        name,
        f"copy {what} at {spans[0][0]} to {spans[-1][1]} from {origin}"
        + (", into a new file" if file is None else ""),
        CopiedRanges(
            tuple(RangeArgument(low, high) for low, high, _ in spans),
            start,
            size,
            max(part.store_timestamp for part in parts),
        ),
        preconditions=tuple(checked),
        losses=tuple(loss for part in parts for loss in part.losses),
        gains={"record": count} if count else {},
        write_byte_count=sum(high - low for low, high, _ in spans),
        notices=(Notice("consumable-again", count),) if count else (),
        sources=tuple(sources),
        regained=tuple(gain for part in parts for gain in part.gains),
    )


def _new_name(store: Store, start: int) -> str:
    """The name of a file that is not there: next to the one before it, else the first, even an empty one."""
    files = files_of(store) or store.commitlog.files
    before = [file for file in files if (file.start_offset or 0) < start]
    near = (*before[-1:], *files)[:1]
    above = near[0].relative.rpartition("/")[0] if near else "commitlog"
    return f"{above}/{offset_to_filename(start)}"


def _cuts(scene: PlanScene, chosen: Chosen) -> Iterator[Action]:
    """Where B's history counts and ends before A's: what A has behind goes."""
    cut = chosen.cut_offset
    for file in scene.store.commitlog.files if cut is not None else ():
        low, high = range_of(file)
        if cut is None or high <= cut:
            continue
        start, whole = max(low, cut), low >= cut
        yield Action(
            "heal-cut",
            file.relative,
            "move the file aside: it is beyond the end of the preferred copy"
            if whole
            else f"cut the log at {cut}, where that of the preferred copy ends",
            arguments=LogCut(start, whole_file=whole),
            preconditions=whole_file(scene, file.relative)
            if whole
            else (scene.extent(file.relative, start - low, file.size),),
            losses=(Loss("byte", high - start, start_offset=start, end_offset=high, kept_in=KEPT),),
            write_byte_count=0 if whole else high - start,
        )


def _plan(scene: PlanScene, rest: Followed, chosen: Chosen) -> Plan:
    table = planning.all_repairs()
    # what follows was planned for the tried store, which was opened as this one: what was assumed is not
    judged = (judge(scene, action, table[action.name]) for action in rest.actions)
    actions = planning.counted(judged, scene.findings)
    return Plan(
        store=planning.describe_store(scene.store),
        level=scene.report.level,
        tool_version=__version__,
        actions=actions,
        unanswered=rest.unanswered,
        counts={rule: count for rule, count in scene.report.counts.items() if count},
        answered_counts=planning.answered_counts(scene.findings, actions),
        conflicts=chosen.conflicts,
        conflict_count=chosen.conflict_count,
    )
