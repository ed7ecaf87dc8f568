"""The index files of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocketfsck.page.files import FileTable
from rocketfsck.page.limits import Limits
from rocketfsck.page.survey import IndexSurvey
from rocketfsck.page.table import columns
from rocketfsck.page.tables import Indexes
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding

_LOST_ENTRIES = frozenset({RuleName.INDEX_ENTRY_ORPHAN})


def indexes_of(
    store: Store,
    surveys: Sequence[IndexSurvey | None],
    table: FileTable,
    findings: Iterable[Finding],
    limits: Limits,
) -> Indexes:
    """The index files that could be read; `findings` say which entries no query finds."""
    lost: dict[str, int] = {}
    for finding in findings:
        if finding.rule in _LOST_ENTRIES:
            lost[finding.where.file] = lost.get(finding.where.file, 0) + finding.count
    rows = []
    for file, survey in zip(store.indexes[: limits.index_count], surveys, strict=False):
        if survey is None or survey.error:
            continue
        rows.append(
            (
                table.known(file.relative),
                survey.slot_count,
                survey.used_slot_count,
                survey.entry_count,
                survey.used_entry_count,
                survey.longest_chain,
                survey.chain_counts,
                lost.get(file.relative, 0),
                survey.begin_timestamp,
                survey.end_timestamp,
                survey.begin_physical_offset,
                survey.end_physical_offset,
            )
        )
    return columns(Indexes, rows)
