"""`rocketfsck check STORE`: what is wrong with a store, where, what it means and what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.checking import check_named
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.output import Format, open_rows, refuse_inside, to_json
from rocketfsck.cli.params import (
    Answer,
    Duration,
    Told,
    level_option,
    output_options,
    path_argument,
    store_options,
)
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.errors import EXIT_PROBLEMS

if TYPE_CHECKING:
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.report import Report


@click.command(cls=Command)
@path_argument("path")
@level_option(
    "quick: names, sizes, headers, tails. cross: every frame, unit, chain and reference, no bodies. "
    "full: every checksum and property, too."
)
@click.option("--select", multiple=True, metavar="RULES", help="Only these rules: ids, slugs, starts of ids.")
@click.option("--ignore", multiple=True, metavar="RULES", help="All but these rules.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Count, but do not show, the findings of this file.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what is found to a baseline.",
)
@click.option("--subset", metavar="N/T|X%|SIZE", help="Only part of the files, the same part every time.")
@click.option("--max-duration", type=Duration(), help="Start nothing new after this time.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep what is done in this file, and go on from it.",
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Files at once; default: one a core.")
@engine_options
@click.option("--delay-levels", metavar="LEVELS", help="messageDelayLevel of the broker: '1s 5s 10s …'.")
@click.option(
    "--simulate",
    "start_version",
    metavar="VERSION",
    help="Judge by the start of a broker of this version, not of all that the store may be of.",
)
@click.option("--all", "all_places", is_flag=True, help="Show every finding, not the first few of a rule.")
@click.option("-v", "--verbose", is_flag=True, help="Show notes, reasons, identity and geometry, too.")
@click.option("-q", "--quiet", is_flag=True, help="Show the verdict alone.")
@store_options
@output_options()
@common_options
def command(
    path: Path,
    told: Told,
    delay_levels: str | None,
    write_baseline: Path | None,
    start_version: str | None,
    all_places: bool,
    verbose: bool,
    quiet: bool,
    engine: str,
    master: str | None,
    answer: Answer,
    **choices: Any,
) -> int:
    """Check the store at PATH: may a broker be started, what is lost, what to run next; then what is wrong.

    Nothing is written but what you ask for. Exit status 4 says that something is wrong, 8 that something
    could not be read.
    """
    from rocketfsck.documents import to_document
    from rocketfsck.repair.verdict import judge_store, ranked
    from rocketfsck.verify.baseline import write_baseline as write_baseline_file

    if start_version is not None:
        from rocketfsck.formats.dialect import dialect_for

        dialect_for(start_version)  # what is no version is said at once
    options = _options(**choices)
    stores = [path, *told.commitlog_paths]
    for written in (write_baseline, options.resume):
        if written is not None:
            refuse_inside(written, stores)
    store = told.open("check", path, delay_levels=delay_levels)
    stores += store.commitlog.directories  # a broker.conf may name some outside
    for written in (write_baseline, options.resume):
        if written is not None:
            refuse_inside(written, stores)
    chosen = chosen_engine(engine, master, options.jobs, [path, *told.commitlog_paths])
    report = check_named(store, options, path, chosen)
    verdict = judge_store(store, report, version=start_version)
    report = ranked(report, verdict)
    narrowed = options.select or options.ignore or options.baseline is not None
    harmful = verdict.may_start is False and options.level != "full" and not narrowed
    code = report.exit_code | (EXIT_PROBLEMS if harmful else 0)
    said = {"exit_code": code, "verdict": to_document(verdict)}
    if write_baseline is not None:
        write_baseline_file(write_baseline, report.findings)
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
    jobs: int | None,
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
        jobs=jobs or 0,
    )


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select CL,CQ --select index-cycle` as single names."""
    return tuple(name for value in values for name in value.replace(",", " ").split())


def _rows(report: Report, said: Mapping[str, Any], output_format: Format) -> Iterator[dict[str, Any]]:
    """A row a finding. JSON lines begin with the report's head and the verdict, without the findings."""
    from rocketfsck.verify.report import finding_row, finding_to_json

    if output_format == "jsonl":
        head = {**report.to_json(), **said}
        yield {name: value for name, value in head.items() if name != "findings"}
    for finding in report.findings:
        if output_format == "jsonl":
            yield {"kind": "rocketfsck.finding", **finding_to_json(finding)}
        else:
            yield finding_row(finding)
