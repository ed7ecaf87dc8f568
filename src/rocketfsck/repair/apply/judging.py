"""Whether a repaired store is what the plan promised: nothing addressed is left, nothing new came up."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.model import Action, Plan, Unanswered
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe, printable
from rocketfsck.verify.tasks.task import is_aggregate
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.traits import Traits, lost_traits, may_write, traits_of

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


NAMING = frozenset({"rename-segment", "move-zero-twin"})
"""Actions that let the log be the one that it was: what a check says elsewhere is mostly a consequence of its
being another, and need not be."""

_STILL = "the repair did not correct this finding"
_OWN_CAUSE = "commit log files with wrong names did not cause this finding; make a new plan"
_NEW = "this finding is new"
_HIDDEN = "commit log files with wrong names hid this finding; make a new plan"
_COUNTED = "the check before counted this finding without listing it"
_OF_LOG = ("CL", "ST")
"""Families of rules of files and the log; all others compare something with the log, or follow from it."""

SAME_FAULT: Mapping[str, str] = {RuleName.DATABASE_LOG_CUT: RuleName.DATABASE_FILE_DAMAGED}
"""Two rules of one fault: by the first while `abort` is there, by the second once a repair removed that."""

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
        before = check_before()
        earlier = {finding.fingerprint for finding in before.findings}
        now = {finding.fingerprint for finding in findings}
        gone = Counter(
            _place(finding)
            for finding in before.findings
            if finding.fingerprint not in now and finding.fingerprint not in answered
        )
        further = _further(before.findings, answered, known)
        for finding in others:
            if finding.fingerprint in earlier:
                left.append(_named(finding, "the plan does not mention this finding"))
            elif gone[_place(finding)] > 0:
                gone[_place(finding)] -= 1
                left.append(_named(finding, "the finding existed before with other values"))
            elif (place := _with_room(further, finding)) is not None:
                further[place] -= finding.count
                left.append(_named(finding, _COUNTED))
            elif logs and not finding.rule.startswith(_OF_LOG):
                left.append(_named(finding, _HIDDEN))
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
