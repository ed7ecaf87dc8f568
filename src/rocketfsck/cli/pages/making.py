"""From a check, or from its saved report, to the document of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.report import amounts_lines
from rocketfsck.cli.show.start import verdict_text, versions_text
from rocketfsck.cli.show.verdict import verdict_lines

if TYPE_CHECKING:
    from rocketfsck.cli.pages.trying import Asked
    from rocketfsck.engine import Engine
    from rocketfsck.page.model import Page, Window
    from rocketfsck.query.start.verdict import Prediction, StartVerdict
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store.model import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.tasks.facts import Fact

COLUMNS = 100
"""How wide the lines of the verdict are."""


def page_of(
    report: Report,
    verdict: Verdict | None,
    engine: Engine,
    *,
    store: Store | None = None,
    facts: Sequence[Fact] = (),
    predictions: Sequence[Prediction] = (),
    plan: Plan | None = None,
    asked: Asked | None = None,
) -> Page:
    """The page of a report; `store` is the one that was checked, with all else that is known of it. `asked`
    is what its check was asked for, where the report does not say all of that."""
    from rocketfsck.cli.pages.trying import asked_for, further_facts, tried_plan
    from rocketfsck.cli.pages.windows import Windows
    from rocketfsck.page.collect import Material, collect
    from rocketfsck.page.limits import DEFAULT
    from rocketfsck.page.surveying import survey_store

    said = () if verdict is None else verdict_lines(verdict, report.store, Palette(False), COLUMNS)
    lines = () if verdict is None else (*said, *amounts_lines(report, COLUMNS, is_timed=False))
    window_of = _no_window if store is None else Windows(store, DEFAULT).of
    known = [*facts, *(() if store is None else further_facts(store, facts))]
    survey = None if store is None else survey_store(store, engine)
    tried, untried = None, ""
    if store is not None and survey is not None and plan is not None and plan.actions:
        tried, untried = tried_plan(
            store, report, survey, plan, known, predictions, asked or asked_for(report), engine
        )
    material = Material(
        report, verdict, lines, _start_text, window_of, store, known, predictions, plan, tried, untried
    )
    return collect(material, survey)


def _start_text(verdict: StartVerdict) -> tuple[str, str]:
    return versions_text([verdict]), verdict_text(verdict)


def _no_window(_finding: Finding, _file: int) -> Window | None:
    return None
