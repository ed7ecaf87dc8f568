"""What the plan of a page makes of the store: tried on a view, and looked at as the store itself is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rocketfsck.common.wording import count_of
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.memory import give_back_memory
from rocketfsck.errors import RocketfsckError
from rocketfsck.page.after import Tried
from rocketfsck.page.findings import left_report
from rocketfsck.page.surveying import Earlier, Survey, survey_store
from rocketfsck.query.info.files import queue_info
from rocketfsck.query.start.verdict import Prediction
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.trial import predict_tried, trying, untried_reason
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Facts
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.policy import Policy, RulePolicy, report_by
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.facts import Fact, QueueFacts

CHECKED_SIZE = 64 << 30
"""Bytes of log and index that one machine checks where several machines did before."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What the check of a store was asked for, as the check of the store after the plan is to be.

    `reason` says why what comes of another check cannot be compared with it; "" where it can.
    """

    options: CheckOptions
    policy: Policy = field(default_factory=dict)
    reason: str = ""


def asked_again(options: CheckOptions, policy: Policy) -> CheckRequest:
    """What a check with these options and this policy was asked for."""
    parts = (options.subset, options.max_duration, options.stop_after)
    reason = "the check was asked for a part of the store" if any(part is not None for part in parts) else ""
    return CheckRequest(replace(options, resume=None, since=None, scrub=None), policy, reason)


def asked_for(report: Report) -> CheckRequest:
    """What the check behind a report was asked for."""
    policy = {rule: RulePolicy(severity=name) for rule, name in report.severities.items()}
    ignored = tuple(rule for rule in report.unasked_rules if rule in RULES)
    reason = "" if report.coverage.complete else "the report does not cover all of the store"
    return CheckRequest(CheckOptions(level=report.level, ignore=ignored), policy, reason)


def tried_plan(
    store: Store,
    report: Report,
    survey: Survey,
    plan: Plan,
    facts: Sequence[Fact],
    predictions: Sequence[Prediction],
    asked: CheckRequest,
    engine: Engine,
) -> tuple[Tried | None, str]:
    """What a plan makes of a store; else why nobody tried.

    What is known of the store (`survey`, `facts`) holds for what the plan leaves alone. `report` is that of
    the check that was `asked` for it, on an engine.
    """
    if reason := untried_reason(plan, store):
        return None, reason
    try:
        with trying(plan, store) as view:
            then = view.reopen()
            # layers of files are known to this process alone
            found = survey_store(then, LocalEngine(), earlier=Earlier(store, survey, view.is_lent))
            unchecked = asked.reason or _beyond_one(then, engine)
            known: list[Fact] = []
            if unchecked:
                known += _unchanged(facts, store, then, view)
                after = left_report(report, plan.answered)
            else:
                options = replace(asked.options, now_timestamp=report.started_timestamp)
                give_back_memory()
                found_then = check_store(then, options, seen=known.extend)
                after = report_by(_named(found_then, view), asked.policy)
            queues = [fact for fact in known if isinstance(fact, QueueFacts)]
            queues += further_facts(then, queues)
            starts = predict_tried(then, predictions)
            return Tried(then, after, found, queues, starts, view.shown, unchecked), ""
    except (RocketfsckError, OSError) as error:
        return None, f"trying the plan failed: {error}"


def _beyond_one(store: Store, engine: Engine) -> str:
    """Why one machine does not check what an engine has checked; "" where it does."""
    size = sum(file.allocated_size for file in (*store.commitlog.files, *store.indexes))
    if isinstance(engine, LocalEngine) or size <= CHECKED_SIZE:
        return ""
    return f"a cluster checked the store, of which one machine checks up to {count_of(CHECKED_SIZE, 'byte')}"


def _named(report: Report, view: TriedStore) -> Report:
    """The report on a view with the names that things have in the store."""
    findings = tuple(
        replace(
            finding,
            where=replace(finding.where, file=view.name_of(finding.where.file)),
            found=_shown(finding.found, view),
            expected=_shown(finding.expected, view),
        )
        for finding in report.findings
    )
    return replace(report, findings=findings)


def _shown(facts: Facts, view: TriedStore) -> Facts:
    return {name: view.shown(value) if isinstance(value, str) else value for name, value in facts.items()}


def further_facts(store: Store, facts: Sequence[Fact]) -> Iterator[QueueFacts]:
    """The bounds of the queues that `facts` do not have, as `info` finds them."""
    seen = {(fact.topic, fact.queue_id) for fact in facts if isinstance(fact, QueueFacts)}
    for queue in store.queues:
        if (queue.topic, queue.queue_id) in seen:
            continue
        found = queue_info(queue)
        low, high, end = found.min_offset, found.max_offset, found.physical_end_offset
        if not queue.files:
            low = high = 0
        if low is not None and high is not None:
            bounds = (low, high, None, -1 if end is None else end)
            yield QueueFacts(queue.topic, queue.queue_id, queue.kind, *bounds, high - low)


def _unchanged(facts: Sequence[Fact], before: Store, after: Store, view: TriedStore) -> Iterator[QueueFacts]:
    """The facts of queues of which every file is as it was."""
    queues = {(queue.topic, queue.queue_id): queue for queue in before.queues}
    same = {
        name
        for queue in after.queues
        if (was := queues.get(name := (queue.topic, queue.queue_id))) is not None
        and _names(was) == _names(queue)
        and all(map(view.is_lent, queue.files))
    }
    for fact in facts:
        if isinstance(fact, QueueFacts) and (fact.topic, fact.queue_id) in same:
            yield fact


def _names(queue: ConsumeQueue) -> list[str]:
    return [file.relative for file in queue.files]
