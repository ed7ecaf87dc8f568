"""What a plan would make of a store, without repairing it: its actions are tried on a view of the store.

    plan, store --> TriedStore --acts--> store as the plan leaves it --predict--> starts

The view is in a scratch directory. Large files cost what is written to them; what is built (queues, index
files) costs its size. `apply` builds the same with the same acts, checks it and publishes it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocketfsck.common.wording import count_of
from rocketfsck.progress import phase
from rocketfsck.query.start.verdict import Prediction, predict_each, start_classes, versions_of
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.store.model import Store
from rocketfsck.store.scratch import scratch_parent

WRITTEN_LIMIT = 2 << 30
"""Bytes that the actions of a plan that is only tried may write."""


def untried_reason(plan: Plan, store: Store) -> str:
    """Why a plan is not tried; "" where it can be."""
    if store.live.locked:
        return "a broker is running on the store"
    size = sum(action.write_byte_count for action in plan.actions)
    if size > WRITTEN_LIMIT:
        return f"the plan writes up to {count_of(size, 'byte')}, more than the {WRITTEN_LIMIT:,} of a trial"
    return ""


@contextmanager
def trying(plan: Plan, store: Store) -> Iterator[TriedStore]:
    """A view of the store, which is as the plan was made for, with all actions of the plan carried out.

    Raises RocketfsckError where an action cannot be carried out, StoreError for what cannot be read or
    written.
    """
    with (
        tempfile.TemporaryDirectory(prefix="rocketfsck-trial-", dir=scratch_parent()) as place,
        TriedStore(store, Path(place).resolve(), plan.actions) as view,
    ):
        with phase("trying the plan"):
            view.carry_out(plan.actions)
        yield view


def predict_tried(tried: Store, predictions: Sequence[Prediction]) -> list[Prediction]:
    """The starts on a store that a plan was tried on: of the versions of `predictions`, which are those of
    the store before, grouped by what the store is now."""
    asked = {version for one in predictions for version in (one.version, *one.alike)}
    classes = start_classes(version for version in versions_of(tried) if str(version) in asked)
    with phase("predicting the starts after the plan"):
        return predict_each(tried, classes)
