"""`rocketfsck check PATH…`: what is wrong with a store, where, what it means and what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.config.applying import policy_in_force
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.lostfile import lost_form, lost_option, write_lost
from rocketfsck.cli.manners import manners_options
from rocketfsck.cli.maskoptions import mask_options
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    as_broker_option,
    complete_rules,
    delay_levels_option,
    jobs_option,
    level_option,
)
from rocketfsck.cli.output import CHECK_FORMS, FORMATS, Format, open_rows, refuse_inside, to_json
from rocketfsck.cli.pages.writing import page_option, write_page
from rocketfsck.cli.params import (
    Destination,
    StoreOptions,
    catalog_option,
    output_options,
    store_options,
    table_format_option,
    verbose_option,
)
from rocketfsck.cli.paramtypes import Duration, InputPath, OutputPath, StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.severalstores import StoresWanted, check_many, stores_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.cli.timing import timing_option
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import UsageError, outcome_of

if TYPE_CHECKING:
    from rocketfsck.cli.masks import Masks
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.tasks.facts import Fact


@click.command(cls=Command)
@click.argument("paths", nargs=-1, type=StorePath(), metavar="PATH…")
@level_option
@click.option(
    "--select",
    multiple=True,
    shell_complete=complete_rules,
    metavar="RULES",
    help="Only these rules: ids, slugs, starts of ids.",
)
@click.option(
    "--ignore", multiple=True, shell_complete=complete_rules, metavar="RULES", help="All but these rules."
)
@click.option(
    "--baseline",
    type=InputPath(dir_okay=False),
    help="Count the findings in this file without showing them.",
)
@click.option(
    "--write-baseline",
    type=OutputPath(),
    help="Write the findings to a baseline.",
)
@click.option("--subset", metavar="N/T|X%|SIZE", help="Only part of the files, the same part every time.")
@click.option("--max-duration", type=Duration(), help="Start no new work after this time.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Save finished work in this file, and continue from it.",
)
@click.option(
    "--stop-after",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after the first N findings above notes, always the same ones.",
)
@page_option
@lost_option
@click.option(
    "--since",
    type=click.Path(path_type=Path),
    metavar="STATE",
    help="Read only what is new since the check that wrote this file, and write it again. "
    "Of several stores: a directory with a file for each.",
)
@click.option(
    "--scrub",
    type=Duration(),
    metavar="PERIOD",
    help="With --since: read every byte once in this time, like 7d, some of them at each check.",
)
@stores_options
@table_format_option
@catalog_option
@jobs_option
@memory_option("check")
@manners_options
@engine_options
@delay_levels_option
@as_broker_option
@click.option("--all", "all_places", is_flag=True, help="Show every finding, not the first few of a rule.")
@verbose_option("Show notes, reasons, identity and geometry, too.")
@click.option("-q", "--quiet", is_flag=True, help="Show the verdict alone.")
@store_options
@mask_options
@output_options(*FORMATS, *CHECK_FORMS)
@timing_option
@common_options
def command(
    paths: tuple[Path, ...],
    stores_from: Path | None,
    tables: Path | None,
    table_format: str,
    properties: tuple[str, ...],
    stated: StoreOptions,
    delay_levels: str | None,
    write_baseline: Path | None,
    page_path: Path | None,
    lost_path: Path | None,
    as_broker: str | None,
    all_places: bool,
    verbose: bool,
    quiet: bool,
    engine: str,
    master: str | None,
    answer: Destination,
    masks: Masks | None,
    passes: Passes | None,
    **choices: Any,
) -> int:
    """Check the store at PATH: whether a broker may be started, what is lost, what to run next; then the
    problems. Of several stores, or a pattern in quotes, check shows a table.

    check writes only files that you name. Exit status 4 means that something is wrong, 8 that
    something could not be read.
    """
    from rocketfsck.common.documents import to_document
    from rocketfsck.repair.prospect import plan_or_obstacle
    from rocketfsck.repair.state import check_status
    from rocketfsck.repair.verdict import judge_store, predicted, ranked
    from rocketfsck.verify.baseline import write_baseline as write_baseline_file
    from rocketfsck.verify.policy import ignored_rules, report_by
    from rocketfsck.verify.run import check_store

    if as_broker is not None:
        from rocketfsck.formats.dialect import dialect_for

        dialect_for(as_broker)  # what is not a version is an error at once
    if masks is not None and page_path is not None:
        raise UsageError("--mask is not for --report: a page shows bytes of the store")
    policy = policy_in_force(click.get_current_context())
    options = _options(**{**choices, "ignore": (*choices["ignore"], *ignored_rules(policy))})
    wanted = StoresWanted(paths, stores_from, tables, page_path, table_format, properties)
    if lost_path is not None:
        lost_form(lost_path)
        if options.level == "quick" or wanted.is_many:
            raise UsageError("--lost is for a check of one store, at level cross or full")
    if wanted.is_many:
        if write_baseline is not None:
            raise UsageError("--write-baseline is for the check of one store")
        if masks is not None:
            raise UsageError("--mask is for the check of one store")
        return check_many(
            wanted,
            options,
            partial(chosen_engine, engine, master),
            stated=stated,
            delay_levels=delay_levels,
            policy=policy,
            as_broker=as_broker,
            answer=answer,
            shown=(verbose or all_places, quiet),
            passes=passes,
        )
    path = wanted.only
    stores = [path, *stated.commitlog_paths]
    places = (write_baseline, options.resume, options.since, page_path, lost_path)
    written = [place for place in places if place is not None]
    for place in written:
        refuse_inside(place, stores)
    with measured(passes, "open"):
        store = stated.open("check", path, delay_levels=delay_levels)
    stores += store.commitlog.directories  # a broker.conf may name some outside
    for place in written:
        refuse_inside(place, stores)
    chosen = chosen_engine(engine, master, [path, *stated.commitlog_paths])
    facts: list[Fact] = []
    report = check_store(store, options, engine=chosen, passes=passes, seen=facts.extend)
    with measured(passes, "verdict"):
        # a plan has bytes of the store
        wants_plan = page_path is not None or (answer.form == "sarif" and masks is None)
        plan, _ = plan_or_obstacle(store, report) if wants_plan else (None, "")
        predictions = predicted(store, report, version=as_broker, while_running=page_path is not None)
        verdict = judge_store(store, report, version=as_broker, plan=plan, predictions=predictions)
    report = ranked(report, verdict)
    found, report = report.findings, report_by(report, policy)
    narrowed = options.select or options.ignore or options.baseline is not None
    code = check_status(report, verdict.state, narrowed=bool(narrowed))
    if masks is not None:
        masks.learn_store(store)
        report, verdict = masks.of(report), masks.of(verdict)
    said: dict[str, Any] = {
        "exit_code": code,
        "outcome": outcome_of(code),
        "verdict": to_document(verdict),
    }
    if page_path is not None:
        from rocketfsck.cli.pages.making import page_of
        from rocketfsck.cli.pages.trying import asked_again

        with measured(passes, "page"):
            page = page_of(
                report,
                verdict,
                chosen,
                store=store,
                facts=facts,
                predictions=predictions,
                plan=plan,
                asked=asked_again(options, policy),
            )
            write_page(page, page_path, stores)
    if passes is not None:
        said["timing"] = [to_document(item) for item in passes.finish()]
    if lost_path is not None:
        write_lost(store, report, lost_path, stores)
    if write_baseline is not None:
        write_baseline_file(write_baseline, found)
    with answer.open(stores) as stream:
        if answer.form == "text":
            from rocketfsck.cli.show.report import report_lines
            from rocketfsck.cli.show.verdict import verdict_lines

            palette = answer.palette(stream)
            columns = text_columns()
            if quiet:
                lines = verdict_lines(verdict, report.store, palette, columns)
            else:
                lines = report_lines(
                    report, verdict, palette, columns=columns, all_places=all_places, verbose=verbose
                )
            stream.writelines(f"{line}\n" for line in lines)
        elif answer.form in CHECK_FORMS:
            from rocketfsck.cli.forms.checked import CheckSaid, render

            checked = CheckSaid(report, verdict, code, options.wanted_rules(), store, plan)
            stream.writelines(render(answer.form, checked))
        elif answer.form == "json":
            stream.write(to_json({**report.to_json(), **said}, indent=2) + "\n")
        else:
            from rocketfsck.verify.report import FINDING_COLUMNS, FINDINGS_KIND

            head = {"kind": FINDINGS_KIND, "store": str(path)}
            with open_rows(stream, answer.form, FINDING_COLUMNS, head) as writer:
                for row in _rows(report, said, answer.form):
                    writer.write(row)
    return code


def _options(
    level: Any,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: Path | None,
    subset: str | None,
    max_duration: float | None,
    resume: Path | None,
    stop_after: int | None,
    since: Path | None,
    scrub: float | None,
) -> CheckOptions:
    from rocketfsck.verify.options import CheckOptions, Subset

    return CheckOptions(
        level=level,
        select=_names(select),
        ignore=_names(ignore),
        baseline=baseline,
        subset=None if subset is None else Subset.parse(subset),
        max_duration=max_duration,
        resume=resume,
        jobs=click.get_current_context().params["jobs"] or 0,
        stop_after=stop_after,
        since=since,
        scrub=scrub,
    )


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select CL,CQ --select index-cycle` as single names."""
    return tuple(name for value in values for name in value.replace(",", " ").split())


def _rows(report: Report, said: Mapping[str, Any], output_format: Format) -> Iterator[dict[str, Any]]:
    """A row a finding. JSON lines begin with the report's head and the verdict, without the findings."""
    if output_format != "jsonl":
        yield from report.finding_rows()
        return
    head = {**replace(report, findings=()).to_json(), **said}
    yield {name: value for name, value in head.items() if name != "findings"}
    for document in report.finding_documents():
        yield {"kind": "rocketfsck.finding", **document}
