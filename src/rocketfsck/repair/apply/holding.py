"""Which actions of a plan hold: what one of them makes worse is refused, and the others are done. ADR 0023.

    plan, store --> trial: acts on a view -> check -> starts --> nothing is wrong: the plan holds
                      ^                                      \\
                      '-- fewer actions <--------------------- something is: which actions cause it?

The trial is what `apply` does with the plan, on a view of the store (`repair.plan.tried`). What an action
needs, or is needed by, goes with it. The search leaves out one kind of action at a time, then adds the kinds
one after another, then divides the actions of a kind.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rocketfsck.errors import RocketfsckError
from rocketfsck.progress import phase
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.apply import judging
from rocketfsck.repair.plan.law import dependents
from rocketfsck.repair.plan.model import Action, Plan, RefusedAction, Unanswered
from rocketfsck.repair.plan.planning import NOT_ALONE, all_findings, all_repairs, answered_counts
from rocketfsck.repair.plan.table import ActionKey, action_key
from rocketfsck.repair.plan.tried import trying, untried_reason
from rocketfsck.repair.state import fates_after
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.run import check_store

CHECKED_LIMIT = 1 << 30
"""Bytes of data files on the disk that a trial checks; a larger store is repaired by the whole plan or not at
all."""
TRIAL_LIMIT = 32
"""Trials of one search."""
REFUSED = "left out: {problem}"

Problem = Callable[[Sequence[Action]], str]
"""Why the result of some actions may not be published; "" where it may."""


@dataclass(slots=True)
class Trials:
    """Tries actions of a plan on views of a store; keeps what is the same for all of them.

    `conf` are the settings of the broker. Without `check` only the starts are compared. `starts` are those of
    the store as it is, with its own settings, as far as they were predicted; those that count messages serve.
    """

    plan: Plan
    store: Store
    conf: Settings | None = None
    report: Report | None = None
    check: bool = True
    starts: Sequence[StartVerdict] = ()
    count: int = 0
    _found: dict[tuple[ActionKey, ...], tuple[Report, judging.Judgement]] = field(
        default_factory=dict, repr=False
    )
    _former: judging.Former | None = field(default=None, repr=False)
    _known: dict[tuple[ActionKey, ...], str] = field(default_factory=dict, repr=False)

    def before(self) -> Report:
        """The check of the store as it is."""
        if self.report is None:
            with phase("checking the store as it was"):
                self.report = check_store(self.store, self._options())
        return self.report

    def _options(self) -> CheckOptions:
        now = int(time.time() * 1000) if self.report is None else self.report.started_timestamp
        unasked = () if self.report is None else self.report.unasked_rules
        return CheckOptions(self.plan.level, ignore=tuple(unasked), now_timestamp=now)

    def problem(self, actions: Sequence[Action]) -> str:
        """Why the result of these actions may not be published; "" where it may, or there are none."""
        key = tuple(map(action_key, actions))
        if key not in self._known:
            self._known[key] = self._tried(actions) if actions else ""
        return self._known[key]

    def _tried(self, actions: Sequence[Action]) -> str:
        self.count += 1
        plan = replace(self.plan, actions=tuple(actions))
        try:
            with trying(plan, self.store) as view:
                tried = view.reopen()
                if self.check:
                    with phase("checking the tried plan"):
                        found = check_store(tried, self._options())
                    judged = judging.judge(plan, found, view.name_of, self.before)
                    self._found[tuple(map(action_key, actions))] = (found, judged)
                    for item in judged.unmet:
                        return f"the check would still find {item.rule}: {item.message}"
                    for item in judged.fresh:
                        return f"there would be a new finding, {item.rule}: {item.message}"
                return judging.start_problem(judging.compare_starts(self._starts_before(), tried, actions))
        except RocketfsckError as error:
            return str(error)

    def found(self, actions: Sequence[Action]) -> tuple[Report, judging.Judgement] | None:
        """The check of the store as these actions leave it, and how it was judged; None without a check."""
        return self._found.get(tuple(map(action_key, actions)))

    def _starts_before(self) -> judging.Former:
        if self._former is None:
            losses = self.check and self.plan.level != "quick"
            counted = [start for start in self.starts if start.reached_count is not None]
            known = counted if losses and self.conf is None else ()
            self._former = judging.Former(self.store, self.conf, losses, known)
        return self._former


def held_plan(
    plan: Plan,
    store: Store,
    report: Report | None = None,
    *,
    conf: Settings | None = None,
    check: bool = True,
    starts: Sequence[StartVerdict] = (),
) -> Plan:
    """The plan without what `apply` would refuse, which its `refused_actions` name, and with what it leaves.

    `store` is the one that the plan was made for, unchanged since, `report` the check that it was made from,
    and `starts` the predicted ones (`verdict.predicted`), where the caller has them. A plan that is too large
    for a trial is returned as it is. Raises StoreError for what cannot be read.
    """
    if not plan.actions or untried_reason(plan, store) or _checked_size(store) > CHECKED_LIMIT:
        return plan
    trials = Trials(plan, store, conf, report, check, starts)
    problem = trials.problem(plan.actions)
    held = plan
    if problem:
        kept = _search(plan.actions, trials.problem, lambda: trials.count < TRIAL_LIMIT)
        held = _without(plan, kept, problem, trials)
    found = trials.found(held.actions)
    return held if found is None else _as_tried(held, *found)


def _as_tried(plan: Plan, found: Report, judged: judging.Judgement) -> Plan:
    """The plan with what its trial showed: what is left in the end, and what becomes of the messages.

    What no action answers may be a consequence of what is corrected: then nothing of it is left.
    """
    reasons = {item.fingerprint: item.reason for item in plan.unanswered}
    unanswered = [replace(item, reason=reasons.get(item.fingerprint, item.reason)) for item in judged.left]
    left = Counter[str]()
    for item in judged.left:
        left[item.rule] += item.count
    for rule, later in judging.SAME_FAULT.items():  # what is left under its other name is not answered
        more = max(left[later] - plan.counts.get(later, 0), 0)
        left[later] -= more
        left[rule] += more
    answered = {
        rule: count - left[rule]
        for rule, count in sorted(plan.counts.items())
        if RULES[rule].severity > Severity.INFO and count > left[rule]
    }
    now = plan.messages_now
    messages = None if now is None or found.account is None else fates_after(now, found.account.fates)
    return replace(
        plan, unanswered=tuple(unanswered), answered_counts=answered, messages_after=messages, is_tried=True
    )


def _checked_size(store: Store) -> int:
    return sum(file.allocated_size for file in store.all_files())


def _search(actions: Sequence[Action], problem: Problem, may_try: Callable[[], bool]) -> list[Action]:
    """The actions that can be done together, as many as are found."""
    table = all_repairs()

    def closed(chosen: Sequence[Action]) -> list[Action]:
        """Some of the actions in their order, without those that need others."""
        keys = {action_key(action) for action in chosen}
        rest = [action for action in actions if action_key(action) in keys]
        gone = [action for action in actions if action_key(action) not in keys]
        needing = {action_key(action) for action, _ in dependents(rest, gone, table)}
        return [action for action in rest if action_key(action) not in needing]

    def holds(chosen: Sequence[Action]) -> bool:
        return may_try() and not problem(chosen)

    def grown(base: list[Action], pool: Sequence[Action]) -> list[Action]:
        """The base with as many actions of a pool as hold with it, divided where they do not."""
        wanted = closed([*base, *pool])
        if len(wanted) <= len(base) or holds(wanted):
            return wanted if len(wanted) > len(base) else base
        if len(pool) <= 1:
            return base
        middle = len(pool) // 2
        return grown(grown(base, pool[:middle]), pool[middle:])

    kinds = {name: [a for a in actions if a.name == name] for name in dict.fromkeys(a.name for a in actions)}
    answered = {name: len({why for a in same for why in a.why}) for name, same in kinds.items()}
    for name in sorted(kinds, key=lambda name: answered[name]):
        left = closed([action for action in actions if action.name != name])
        if left and holds(left):
            return grown(left, kinds[name]) if len(kinds[name]) > 1 else left
    kept: list[Action] = []
    for same in kinds.values():
        kept = grown(kept, same)
    return kept


def _without(plan: Plan, kept: Sequence[Action], problem: str, trials: Trials) -> Plan:
    """The plan with these of its actions; what the others answer is not answered."""
    keys = {action_key(action) for action in kept}
    gone = [action for action in plan.actions if action_key(action) not in keys]
    needing = {
        action_key(action): needed
        for action, needed in dependents(gone, [a for a in gone if not _follows(a, gone)], all_repairs())
    }
    reasons: dict[str, str] = {}
    refused: list[RefusedAction] = []
    for action in gone:
        needed = needing.get(action_key(action))
        reason = (
            REFUSED.replace("{problem}", problem)
            if needed is None
            else NOT_ALONE.replace("{repair}", action.name).replace("{needed}", needed)
        )
        refused.append(RefusedAction(action.name, action.target, reason))
        reasons |= dict.fromkeys([*action.why, *action.partly], reason)
    known = {item.fingerprint for item in plan.unanswered}
    answered = {name for action in kept for name in action.why}
    findings = all_findings(trials.store, trials.before())
    left = [
        Unanswered(
            finding.fingerprint, finding.rule, describe(finding), reasons[finding.fingerprint], finding.count
        )
        for finding in findings
        if finding.fingerprint in reasons
        and finding.fingerprint not in answered | known
        and RULES[finding.rule].severity > Severity.INFO
    ]
    return replace(
        plan,
        actions=tuple(kept),
        unanswered=(*plan.unanswered, *left),
        answered_counts=answered_counts(findings, kept),
        refused_actions=(*plan.refused_actions, *refused),
    )


def _follows(action: Action, gone: Sequence[Action]) -> bool:
    """Whether an action needs another one of those that are left out."""
    others = [other for other in gone if other is not action]
    return bool(dependents([action], others, all_repairs()))
