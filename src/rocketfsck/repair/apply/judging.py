"""Whether a repaired store is what the plan promised: nothing addressed is left, nothing new came up.

Judges a repaired store by a start: what brokers would do with it, and whether they did less before.

    the store as it was --predict--> verdicts  --+-->  worse in nothing,
    the store repaired  --predict--> verdicts  --+     or the repair is not published

Every version that the store may have is asked; those that start alike once. Design, section 5.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import Version
from rocketfsck.query.start.load import NO_AREAS, Areas
from rocketfsck.query.start.verdict import StartVerdict, predict_starts, start_classes, versions_of, worse
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.model import Action, Plan, Unanswered
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.tasks.task import is_aggregate
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import Traits, lost_traits, may_write, traits_of

if TYPE_CHECKING:
    from rocketfsck.repair.build.run import RebuildOptions

START_SETTINGS = (
    "brokerId",
    "checkCRCOnRecover",
    "combineAssignOffsetCQType",
    "combineCQMaxExtraSearchCommitLogFiles",
    "combineCQPreferCQType",
    "combineCQUseRocksdbForLmq",
    "enableConsumeQueueExt",
    "enableDLegerCommitLog",
    "enableLmq",
    "forceVerifyPropCRC",
    "indexRocksDBEnable",
    "recheckReputOffsetFromCq",
    "rocksdbCQDoubleWriteEnable",
    "storeType",
    "transRocksDBEnable",
    "useSeparateStorePathForRocksdbCQ",
)
"""Settings, besides those of sizes, index and delay levels, that decide what a start does."""


@dataclass(frozen=True, slots=True)
class StartComparison:
    """The start of a class of versions on the store as it was and on the repaired one.

    `before` is None where nobody asked: the start afterwards takes nothing, so that it cannot be worse.
    `worse` are clauses that say in what the later one is worse.
    """

    before: StartVerdict | None
    after: StartVerdict
    worse: tuple[str, ...] = ()


@dataclass(slots=True)
class Former:
    """The store as it was before a repair, whose starts are predicted when they are asked for, once.

    `conf` are the settings of the broker. `losses` says whether to look for messages that come out of reach,
    which reads the log once, before and after. `known` are starts that were predicted already, so.
    """

    store: Store
    conf: Settings | None = None
    losses: bool = True
    known: InitVar[Iterable[StartVerdict]] = ()
    _known: dict[tuple[str, ...], StartVerdict] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self, known: Iterable[StartVerdict]) -> None:
        self._known.update((start.alike, start) for start in known)

    def starts(self, classes: Sequence[tuple[Version, ...]]) -> dict[tuple[Version, ...], StartVerdict]:
        """The starts of these classes of versions."""
        names = {group: tuple(map(str, group)) for group in classes}
        missing = [group for group in classes if names[group] not in self._known]
        found = predict_starts(self.store, missing, conf=self.conf, losses=self.losses) if missing else []
        self._known.update((start.alike, start) for start in found)
        return {group: self._known[names[group]] for group in classes}


def compare_starts(before: Former, after: Store, actions: Sequence[Action]) -> tuple[StartComparison, ...]:
    """Predict the starts of all versions that the store may have, after and before the repair.

    `before` is asked for the store's own version, and wherever the start afterwards takes something. What
    cannot be predicted has a verdict that says so.
    """
    classes = start_classes(versions_of(after))
    found = predict_starts(after, classes, conf=before.conf, losses=before.losses)
    own = after.dialect.version
    asked = [
        group for group, verdict in zip(classes, found, strict=True) if own in group or not verdict.harmless
    ]
    earlier = before.starts(asked)
    given_up = sum(
        loss.count for action in actions for loss in action.losses if loss.what in ("record", "unit")
    )
    comparisons = []
    for group, verdict in zip(classes, found, strict=True):
        then = earlier.get(group)
        reasons = () if then is None else worse(then, verdict, given_up)
        comparisons.append(StartComparison(then, verdict, reasons))
    return tuple(comparisons)


def start_problem(comparisons: Sequence[StartComparison]) -> str:
    """Why a repair is not to be published, as a sentence without its full stop; "" where it may be."""
    for item in comparisons:
        if item.worse:
            return (
                f"a broker of version {item.after.version} would start worse than before: it {item.worse[0]}"
            )
    return ""


def predict_output(
    store: Store, versions: Iterable[Version], *, losses: bool, areas: Areas = NO_AREAS
) -> tuple[StartVerdict, ...]:
    """The starts of these versions on a store that was built again, or parts of it.

    `areas` are the directories that were built, by the name of the store's that they stand for.
    """
    return tuple(predict_starts(store, start_classes(versions), losses=losses, areas=areas))


def predict_rebuilt(store: Store, into: Path, options: RebuildOptions) -> tuple[StartVerdict, ...]:
    """The starts on a store with what was rebuilt of it, in `into`, in place of its own; none where only a
    part of its queues or index was.

    Reads what the broker would read, and not the whole log: messages out of reach are not looked for.
    """
    if options.wanted is not None or options.from_offset is not None or options.only_missing:
        return ()
    queues, index = options.queues, options.index
    built = open_store(into, version=str(store.dialect.version))
    areas = {
        name: into / name
        for name, wanted in (("consumequeue", queues), ("batchconsumequeue", queues), ("index", index))
        if wanted
    }
    replaced = {item.relative for item in built.others}
    if not replaced.isdisjoint(QUEUE_DATABASES):
        replaced |= set(QUEUE_DATABASES)
    others = (*(item for item in store.others if item.relative not in replaced), *built.others)
    mixed = replace(
        store,
        others=others,
        queues=built.queues if queues else store.queues,
        indexes=built.indexes if index else store.indexes,
        checkpoint=built.checkpoint if options.checkpoint else store.checkpoint,
    )
    return predict_output(mixed, versions_of(store), losses=False, areas=areas)


# Whether a repaired store has the owners, permissions and attributes that it had.
#
# Everything that the repair made is compared with what it takes the place of. What is not kept is part of the
# report; a store that its broker could not write to any more is not published.

_MOST = 100


def account_for_traits(root: str, tree: WorkTree, in_place: bool) -> tuple[str, ...]:
    """What is not kept, file by file, the first hundred. Raises OSError.

    Raises UsageError where the owner of the store, or of a file, could write to it before and no longer.
    Directories of the tree count only where they take the place of the store's.
    """
    owner = os.stat(root).st_uid  # noqa: PTH116
    lost: list[str] = []
    for name, kind, made in _made(tree, in_place):
        before = _before(root, name, kind)
        if before is None:
            _refuse_loss(name, owner, None, made)
            continue
        _refuse_loss(name, owner, before, made)
        _refuse_loss(name, before.user, before, made)
        lost += [f"{printable(name)}: {what}" for what in lost_traits(before, made)]
    more = [] if len(lost) <= _MOST else [f"and {len(lost) - _MOST} more"]
    return (*lost[:_MOST], *more)


def _made(tree: WorkTree, in_place: bool) -> Iterator[tuple[str, int, Traits]]:
    """The names, kinds and traits of all in the tree that is not shared with the store."""
    for base in ("", *tree.outside):
        for folder, _, names in fileops.walk(tree.on_disk(tree.place(base))):
            if not in_place:
                yield tree.name_of(str(folder)), stat.S_IFDIR, traits_of(str(folder))
            for name in names:
                status = fileops.status_of(folder / name)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    yield tree.name_of(str(folder / name)), stat.S_IFREG, traits_of(str(folder / name))


def _before(root: str, name: str, kind: int) -> Traits | None:
    """The traits of what has this name in the store; None where nothing of its kind has."""
    path = name if name.startswith("/") else f"{root}/{name}"
    try:
        same = stat.S_IFMT(os.stat(path).st_mode) == kind  # noqa: PTH116
        return traits_of(path) if same else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refuse_loss(name: str, user: int, before: Traits | None, made: Traits) -> None:
    if may_write(user, made) or (before is not None and not may_write(user, before)):
        return
    raise UsageError(
        f"{printable(name) or 'the store'} would belong to user {made.user}, and user {user}, whose store "
        f"it is, could not write to it any more; repair it as user {user} or as root"
    )


NAMING = frozenset({"rename-segment", "move-zero-twin", "move-copied-segment", "split-segment"})
"""Actions that let the log be the one that it was: what a check says elsewhere is mostly a consequence of its
being another, and need not be."""

_STILL = "the repair did not correct this finding"
_OWN_CAUSE = "commit log files with wrong names did not cause this finding; make a new plan"
_NEW = "this finding is new"
_HIDDEN = "commit log files with wrong names hid this finding; make a new plan"
_COUNTED = "the check before counted this finding without listing it"
_OF_LOG = ("CL", "ST")
"""Families of rules of files and the log; all others compare something with the log, or follow from it."""

_OTHERWISE = "the finding existed before with other values"

SAME_FAULT: Mapping[str, str] = {
    RuleName.DATABASE_LOG_CUT: RuleName.DATABASE_FILE_DAMAGED,
    RuleName.ENTRY_OF_DAMAGED_RECORD: RuleName.ENTRY_KEY,
}
"""Two rules of one fault: by the first while `abort` is there, by the second once a repair removed that; by
the first while a record is damaged, by the second once filler, which has no keys, is in its place."""

SHOWN_BY: Mapping[str, str] = {RuleName.TOPICS_GONE: "rebuild-queue"}
"""Rules of what was amiss before and shows only once an action has made something again: topics that no
topics.json has are topics that have queues."""
_SHOWN = "the store was so before, but had no queues that show it: another repair can follow"

Place = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Findings above info of the result: addressed and still there, new, others that were there before."""

    unmet: tuple[Unanswered, ...]
    fresh: tuple[Unanswered, ...]
    left: tuple[Unanswered, ...]


def judge(
    plan: Plan, found: Report, name_of: Callable[[str], str], check_before: Callable[[], Report]
) -> Judgement:
    """Compare what a check of the result found with what the plan answers and what it leaves.

    `name_of` gives the store's name of a file of the result. `check_before` checks the store as it was; it is
    called only if the result has findings that the plan does not know. One of those does not count as new if
    the store had it too, or another of the same rule at the same queue, else file, that is gone now: what a
    finding says of its neighbourhood may change by a repair. Of those that a check only counts, as many may
    be listed afterwards as the plan leaves.
    """
    answered = plan.answered
    certain = {name for action in plan.actions if action.name not in NAMING for name in action.why}
    known = {item.fingerprint: item for item in plan.unanswered}
    findings = [_renamed(finding, name_of) for finding in found.findings]
    findings = [finding for finding in findings if RULES[finding.rule].severity > Severity.INFO]
    logs = {name for action in plan.actions if action.name in NAMING for name in _targets(action)}
    still = [finding for finding in findings if finding.fingerprint in answered]
    unmet = [item for item in still if item.fingerprint in certain or item.where.file in logs]
    left = [_named(item, _OWN_CAUSE) for item in still if item not in unmet]
    left += [
        replace(known[finding.fingerprint], count=finding.count)
        for finding in findings
        if finding.fingerprint in known
    ]
    others = [finding for finding in findings if finding.fingerprint not in answered | known.keys()]
    fresh: list[Finding] = []
    if others:
        done = {action.name for action in plan.actions}
        before = check_before()
        earlier = {finding.fingerprint for finding in before.findings}
        now = {finding.fingerprint for finding in findings}
        gone = Counter(
            _place(finding)
            for finding in before.findings
            if finding.fingerprint not in now and finding.fingerprint not in answered
        )
        reasons = {
            _place(finding): known[finding.fingerprint].reason
            for finding in before.findings
            if finding.rule in SAME_FAULT and finding.fingerprint in known
        }
        further = _further(before.findings, answered, known)
        for finding in others:
            if finding.fingerprint in earlier:
                left.append(_named(finding, "the plan does not mention this finding"))
            elif gone[_place(finding)] > 0:
                gone[_place(finding)] -= 1
                left.append(_named(finding, reasons.get(_place(finding), _OTHERWISE)))
            elif (place := _with_room(further, finding)) is not None:
                further[place] -= finding.count
                left.append(_named(finding, _COUNTED))
            elif logs and not finding.rule.startswith(_OF_LOG):
                left.append(_named(finding, _HIDDEN))
            elif SHOWN_BY.get(finding.rule) in done:
                left.append(_named(finding, _SHOWN))
            else:
                fresh.append(finding)
    return Judgement(tuple(_all(unmet, _STILL)), tuple(_all(fresh, _NEW)), tuple(left))


def _further(
    findings: Iterable[Finding], answered: Collection[str], known: Mapping[str, Unanswered]
) -> Counter[tuple[str, str]]:
    """How many findings, of those that a report only counts, a plan leaves: by rule and file."""
    totals: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        name = finding.fingerprint
        if is_aggregate(finding) and name not in answered:
            totals[finding.rule, finding.where.file] += known[name].count if name in known else finding.count
    return totals


def _with_room(further: Counter[tuple[str, str]], finding: Finding) -> tuple[str, str] | None:
    """Where a finding was counted before; None if it was not."""
    places = ((finding.rule, finding.where.file), (finding.rule, ""))
    return next((place for place in places if further[place] >= finding.count), None)


def _targets(action: Action) -> Iterable[str]:
    return (action.target, *(extent.file for extent in action.preconditions))


def _renamed(finding: Finding, name_of: Callable[[str], str]) -> Finding:
    file = finding.where.file
    if not file.startswith("/"):
        return finding
    return replace(finding, where=replace(finding.where, file=name_of(file)))


def _place(finding: Finding) -> Place:
    """What a finding is about, whatever its words: a queue, else a file."""
    where = finding.where
    rule = SAME_FAULT.get(finding.rule, finding.rule)
    return rule, where.file if where.topic is None else f"/{where.topic}", where.queue_id


def _all(findings: Iterable[Finding], reason: str) -> Iterable[Unanswered]:
    return (_named(finding, reason) for finding in findings)


def _named(finding: Finding, reason: str) -> Unanswered:
    return Unanswered(finding.fingerprint, finding.rule, describe(finding), reason, finding.count)
