"""`rocketfsck check PATH…`: what is wrong with a store, where, what it means and what to run next.

`check --lost FILE`: the messages that are lost, a row a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli import output
from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.config import policy_in_force, refuse_config_of
from rocketfsck.cli.output import PageFile, write_page
from rocketfsck.cli.paramtypes import Background, Jobs, ReadRate, max_memory
from rocketfsck.cli.show.text import text_columns
from rocketfsck.commands.check import CheckAnswer, CheckCommand, check, check_fleet
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import WRITE_FILE, Option, PutAfter
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import UsageError, outcome_of

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.stopping import Policy

_NAMED: tuple[output.Format, ...] = ("csv", "json", "jsonl", "arrow", "parquet")
FORMS = {f".{form}": form for form in _NAMED}
"""The form of a file, by the end of its name."""
NOT_COUNTED = (
    "--lost: the messages were not counted: the check was quick, stopped early, or a broker is running"
)


LostFile = Annotated[
    Path | None,
    Option(
        "List the messages that are lost: topic, queue, offsets, times, groups. FILE ends in .csv, "
        ".json, .jsonl, .arrow or .parquet.",
        names=("--lost",),
        metavar="FILE",
        kind=WRITE_FILE,
    ),
]


def lost_form(path: Path) -> output.Format:
    """The form that a file's name asks for. Raises UsageError."""
    form = FORMS.get(path.suffix)
    if form is None:
        raise UsageError(f"--lost: the name must end in one of {', '.join(FORMS)}: {path}")
    return form


def write_lost(store: Store, report: Report, path: Path, stores: Sequence[Path]) -> None:
    """Write the list. Raises UsageError where nothing was counted, StoreError."""
    from rocketfsck.repair.state import LOST_COLUMNS, LOST_KIND, lost_messages

    form = lost_form(path)
    if report.account is None:
        raise UsageError(NOT_COUNTED)
    head = {"kind": LOST_KIND, "store": str(store.root)}
    with output.open_output(path, binary=form in output.BINARY_FORMATS, forbidden=stores) as stream:
        rows = (lost.as_row() for lost in lost_messages(store, report.account))
        output.write_rows(stream, form, output.Table(LOST_COLUMNS, head, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine(CheckCommand):
    """A check, what is shown of its answer, and where that goes."""

    answer: Annotated[output.Destination, Formats((*output.FORMATS, *output.CHECK_FORMS))]
    write_baseline: Annotated[
        Path | None, PutAfter("baseline"), Option("Write the findings to a baseline.", kind=WRITE_FILE)
    ] = None
    page_path: Annotated[PageFile, PutAfter("stop_after")] = None
    lost_path: LostFile = None
    jobs: Annotated[Jobs, PutAfter("properties")] = None
    max_memory: Annotated[int | None, max_memory("check")] = None
    bwlimit: ReadRate = None
    background: Background = False
    all_places: Annotated[
        bool,
        PutAfter("as_broker"),
        Option("Show every finding, not the first few of a rule.", names=("--all",)),
    ] = False
    verbose: Annotated[bool, output.verbosely("Show notes, reasons, identity and geometry, too.")] = False
    quiet: Annotated[bool, Option("Show the verdict alone.", names=("-q", "--quiet"))] = False


@command_of(CheckLine, timing="")
def check_command(line: CheckLine, passes: Passes | None) -> int:
    """Check the store at PATH: whether a broker may be started, what is lost, what to run next; then the
    problems. Of several stores, a directory of stores, or a pattern in quotes, check shows a table.

    check writes only files that you name. Exit status 4 means that something is wrong, 8 that
    something could not be read.
    """
    if line.masking.is_wanted and line.page_path is not None:
        raise UsageError("--mask is not for --report: a page shows bytes of the store")
    policy = policy_in_force(click.get_current_context())
    line = replace(line, options=replace(line.looked_at(), jobs=line.jobs or 0))  # advice names them
    found = line.find()
    if line.lost_path is not None:
        lost_form(line.lost_path)
        if line.options.level == "quick" or found.is_many:
            raise UsageError("--lost is for a check of one store, at level cross or full")
    if found.is_many:
        return _check_fleet(line, found.places, policy, passes)
    line = replace(line, paths=(found.only,))
    files = (line.write_baseline, line.page_path, line.lost_path)
    named = [found.only, *line.stated.commitlog_paths]
    for path in files:
        refuse_inside(path, named)
    # a plan has bytes of the store
    plans = line.page_path is not None or (line.answer.form == "sarif" and not line.masking.is_wanted)
    answer = check(replace(line, plans=plans, while_running=line.page_path is not None), policy, passes)
    stores = [*named, *answer.store.data_directories]
    for path in files:
        refuse_inside(path, stores)
    said = _write_files(line, answer, policy, passes, stores)
    with line.answer.open(stores) as stream:
        if line.answer.form == "text":
            stream.writelines(f"{text}\n" for text in _lines(line, answer, stream))
        elif line.answer.form in output.CHECK_FORMS:
            from rocketfsck.cli.forms.checked import CheckSaid, render

            rules = line.options.wanted_rules()
            judged = (answer.report, answer.verdict, answer.exit_code)
            stream.writelines(render(line.answer.form, CheckSaid(*judged, rules, answer.store, answer.plan)))
        elif line.answer.form == "json":
            stream.write(output.to_json({**answer.report.to_json(), **said}, indent=2) + "\n")
        else:
            from rocketfsck.verify.report import FINDING_COLUMNS, FINDINGS_KIND

            head = {"kind": FINDINGS_KIND, "store": str(found.only)}
            rows = _rows(answer.report, said, line.answer.form)
            output.write_rows(stream, line.answer.form, output.Table(FINDING_COLUMNS, head, rows))
    return answer.exit_code


def _check_fleet(line: CheckLine, places: tuple[Path, ...], policy: Policy, passes: Passes | None) -> int:
    """Check several stores, write what came of them, and give the exit status."""
    from rocketfsck.cli.pages.reading import groups_said
    from rocketfsck.cli.show.replication import stores_lines
    from rocketfsck.pipeline.fleet.model import STORE_COLUMNS

    if line.write_baseline is not None:
        raise UsageError("--write-baseline is for the check of one store")
    if line.answer.form in output.CHECK_FORMS and line.answer.form != "openmetrics":
        raise UsageError(f"--format {line.answer.form} is for the check of one store")
    refuse_config_of(places)
    refuse_inside(line.page_path, places)
    wants_page = line.page_path is not None
    answer = check_fleet(line, policy, passes, places=places, keeps_findings=wants_page)
    report = answer.report
    if wants_page:
        from rocketfsck.page.fleet import fleet_page

        groups = groups_said(report.node_groups)
        page = fleet_page(
            [row.as_row() for row in report.stores], report.finding_rows(), groups, answer.earlier
        )
        write_page(page, line.page_path, places)
    with line.answer.open(places) as stream:
        if line.answer.form == "text":
            palette, everything = line.answer.palette(stream), line.verbose or line.all_places
            lines = stores_lines(report, palette, text_columns(), everything=everything, quiet=line.quiet)
            stream.writelines(f"{text}\n" for text in lines)
        elif line.answer.form == "openmetrics":
            from rocketfsck.cli.forms.openmetrics import fleet_pieces

            stream.writelines(fleet_pieces(report))
        else:
            rows = (row.as_row() for row in report.stores)
            output.write_rows(stream, line.answer.form, output.Table(STORE_COLUMNS, report.head(), rows))
    return report.exit_code


def _write_files(
    line: CheckLine, answer: CheckAnswer, policy: Policy, passes: Passes | None, stores: Sequence[Path]
) -> dict[str, Any]:
    """Write the files that are named, and give what a document says besides the report."""
    from rocketfsck.verify.tasks.resume import write_baseline

    code, verdict = answer.exit_code, to_document(answer.verdict)
    said: dict[str, Any] = {"exit_code": code, "outcome": outcome_of(code), "verdict": verdict}
    if line.page_path is not None:
        from rocketfsck.cli.pages.making import asked_again, page_of

        with measured(passes, "page"):
            page = page_of(
                answer.report,
                answer.verdict,
                answer.engine,
                store=answer.store,
                facts=answer.facts,
                predictions=answer.predictions,
                plan=answer.plan,
                asked=asked_again(answer.asked, policy),
            )
            write_page(page, line.page_path, stores)
    if passes is not None:
        said["timing"] = [to_document(item) for item in passes.finish()]
    if line.lost_path is not None:
        write_lost(answer.store, answer.report, line.lost_path, stores)
    if line.write_baseline is not None:
        write_baseline(line.write_baseline, answer.found)
    return said


def _lines(line: CheckLine, answer: CheckAnswer, stream: Any) -> Iterator[str]:
    from rocketfsck.cli.show.report import Detail, report_lines
    from rocketfsck.cli.show.verdict import verdict_lines

    palette, columns = line.answer.palette(stream), text_columns()
    if line.quiet:
        return verdict_lines(answer.verdict, answer.report.store, palette, columns)
    detail = Detail(line.all_places, line.verbose)
    return report_lines(answer.report, answer.verdict, palette, columns, detail)


def _rows(report: Report, said: Mapping[str, Any], output_format: output.Format) -> Iterator[dict[str, Any]]:
    """A row a finding. JSON lines begin with the report's head and the verdict, without the findings."""
    if output_format != "jsonl":
        yield from report.finding_rows()
        return
    head = {**replace(report, findings=()).to_json(), **said}
    yield {name: value for name, value in head.items() if name != "findings"}
    for document in report.finding_documents():
        yield {"kind": "rocketfsck.finding", **document}
