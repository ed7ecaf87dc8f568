"""What the plan of a page makes of the store: tried on a view, and looked at as the store itself is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.cli.storefacts import queue_facts
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import RocketfsckError
from rocketfsck.page.after import Tried
from rocketfsck.page.surveying import Earlier, Survey, survey_store
from rocketfsck.query.start.verdict import Prediction
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.trial import predict_tried, trying, untried_reason
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.tasks.facts import Fact, QueueFacts


def tried_plan(
    store: Store, survey: Survey, plan: Plan, facts: Sequence[Fact], predictions: Sequence[Prediction]
) -> tuple[Tried | None, str]:
    """What a plan makes of a store; else why nobody tried.

    What is known of the store (`survey`, `facts`) holds for what the plan leaves alone.
    """
    if reason := untried_reason(plan, store):
        return None, reason
    try:
        with trying(plan, store) as view:
            then = view.reopen()
            # layers of files are known to this process alone
            found = survey_store(then, LocalEngine(), earlier=Earlier(store, survey, view.is_lent))
            same = list(_unchanged(facts, store, then, view))
            queues = (*same, *further_facts(then, same))
            return Tried(then, found, queues, predict_tried(then, predictions), view.shown), ""
    except (RocketfsckError, OSError) as error:
        return None, f"trying the plan failed: {error}"


def further_facts(store: Store, facts: Sequence[Fact]) -> Iterator[QueueFacts]:
    """The bounds of the queues that `facts` do not have, as `info` finds them."""
    seen = {(fact.topic, fact.queue_id) for fact in facts if isinstance(fact, QueueFacts)}
    for queue in store.queues:
        if (queue.topic, queue.queue_id) in seen:
            continue
        found = queue_facts(queue)
        low, high, end = (found[name] for name in ("min_offset", "max_offset", "physical_end_offset"))
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
