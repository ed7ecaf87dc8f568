"""The views of what is gone and what a start would do: `lost` and `starts`. One part a store.

    lost      one row a range of lost messages of one queue: which, how that is known, between which times
              they were stored, and who had not read them
    starts    one row a version that the store may come from: what a broker of it would do when it starts

The rows of `lost` are those of `check --lost`, by a check at `level` (`cross`, if not given); their
`message_count` adds up to what the verdict counts, lost for certain or perhaps (`sure`). The rows of `starts`
are the members of a predicted start in a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.arrays import Row
from rocketfsck.pipeline.views.dataclassrows import fields_of, row_of
from rocketfsck.pipeline.views.findings import checked, left_out_rows
from rocketfsck.pipeline.views.model import WantedRows, ignores
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.query.start.verdict import (
    Prediction,
    StartVerdict,
    predict_each,
    start_classes,
    verdict_of,
    versions_of,
)
from rocketfsck.repair.outlook import LostMessages, lost_messages

NOT_COUNTED = "the messages were not counted: a broker is running, or the check stopped early"


def lost_fields() -> list[pa.Field]:
    """The columns of the view `lost`."""
    return [*fields_of(LostMessages), pa.field("file", pa.string())]


def lost_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """The ranges of the account; one row for those that it counts only; then what could not be read."""
    store = open_source(source)
    report = checked(store, wanted)
    problems = list(left_out_rows(report, wanted))
    if report.account is None:
        raise StoreError(NOT_COUNTED, path=str(store.root))
    for lost in lost_messages(store, report.account):
        yield row_of(lost)
    if report.account.unlisted_count:
        yield {"message_count": report.account.unlisted_count}
    yield from problems


def start_fields() -> list[pa.Field]:
    """The columns of the view `starts`."""
    return [*fields_of(StartVerdict), pa.field("harmless", pa.bool_())]


def start_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """Every version that the store may come from."""
    store = open_source(source)
    for prediction in predict_each(store, start_classes(versions_of(store))):
        _demand_read(prediction, wanted)
        verdict = verdict_of(prediction)
        for version in prediction.alike:
            yield row_of(replace(verdict, version=version), harmless=verdict.harmless)


def _demand_read(prediction: Prediction, wanted: WantedRows) -> None:
    """Raise the error of a store that could not be read, unless the rows are to go on without."""
    error = prediction.error
    if error is not None and not isinstance(error, NotCoveredError) and not ignores(wanted, error):
        raise error
