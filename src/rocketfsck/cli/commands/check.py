"""`rocketfsck check STORE`: what is wrong with a store, where, what it means and what to run next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options, terminal_width
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.output import Column, Format, open_rows, refuse_inside, to_json
from rocketfsck.cli.params import (
    Answer,
    Duration,
    Told,
    level_option,
    output_options,
    path_argument,
    store_options,
)
from rocketfsck.cli.progress import progress
from rocketfsck.cli.show.text import visible
from rocketfsck.errors import EXIT_PROBLEMS, StoreError

if TYPE_CHECKING:
    from rocketfsck.engine import Engine
    from rocketfsck.query.start.model import Start
    from rocketfsck.store import Store
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.report import Diagnosis, Report

FINDING_COLUMNS = (
    Column("rule", "text"),
    Column("slug", "text"),
    Column("severity", "text"),
    Column("message", "text"),
    Column("file", "name"),
    Column("start", "int"),
    Column("end", "int"),
    Column("physical_offset", "int"),
    Column("topic", "name"),
    Column("queue_id", "int"),
    Column("queue_offset", "int"),
    Column("slot", "int"),
    Column("entry", "int"),
    Column("found", "json"),
    Column("expected", "json"),
    Column("count", "int"),
    Column("fingerprint", "text"),
    Column("fault_class", "text"),
    Column("repair", "text"),
)


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
    help="Say, too, what the start of a broker of this version would do (see the command simulate).",
)
@click.option("--all", "all_places", is_flag=True, help="Show every finding, not the first few of a rule.")
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
    engine: str,
    master: str | None,
    answer: Answer,
    **choices: Any,
) -> int:
    """Check the store at PATH and say what is wrong, where, what it means, and what to run next.

    Nothing is written but what you ask for. Exit status 4 says that something is wrong, 8 that something
    could not be read.
    """
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
    report = _check(store, options, path, chosen)
    report, start = (report, None) if start_version is None else _with_start(report, store, start_version)
    if write_baseline is not None:
        write_baseline_file(write_baseline, report.findings)
    with answer.open(stores) as stream:
        if answer.form == "text":
            from rocketfsck.cli.show.report import report_lines

            palette = answer.palette(stream)
            columns = min(terminal_width(100), 120)
            for line in report_lines(report, palette, columns=columns, all_places=all_places):
                stream.write(line + "\n")
            if start is not None:
                stream.write(f"Start: {start['headline']}.\n")
                for item in start["urgent"]:
                    stream.write(f"  urgent before it: {item['fault_class']} {item['title']}\n")
        elif answer.form == "json":
            start_json = {} if start is None else {"start": start}
            stream.write(to_json({**report.to_json(), **start_json}, indent=2) + "\n")
        else:
            head = {"kind": "rocketfsck.check.findings", "store": str(path)}
            with open_rows(stream, answer.form, FINDING_COLUMNS, head) as writer:
                for row in _rows(report, answer.form):
                    writer.write(row)
    if start is None:
        return report.exit_code
    if answer.is_rows:
        click.echo(f"Start: {start['headline']}.", err=True)
    return report.exit_code | (EXIT_PROBLEMS if start["harmful"] else 0)


def _with_start(report: Report, store: Store, version: str) -> tuple[Report, dict[str, Any]]:
    """The report with what is urgent before a start in front, and what the start would do, in short.

    A start that cannot be predicted is no reason to lose the report.
    """
    from rocketfsck.cli.show.simulate import headline
    from rocketfsck.query.start.simulate import simulate_start

    try:
        start = simulate_start(store, version)
    except StoreError as error:
        return report, {
            "version": version,
            "covered": False,
            "harmful": None,
            "headline": visible(str(error)),
            "urgent": [],
        }
    report = ranked(report, start)
    return report, {
        "version": start.version,
        "covered": True,
        "harmful": start.harmful,
        "headline": headline(start),
        "urgent": [
            {"fault_class": diagnosis.fault_class, "title": diagnosis.title}
            for diagnosis in urgent(report.diagnoses, start)
        ],
    }


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


def _check(store: Store, options: CheckOptions, path: Path, engine: Engine) -> Report:
    from rocketfsck.verify.run import check_store

    with progress(f"check {os.fspath(path)}") as bar:
        return check_store(store, options, engine=engine, progress=bar.update)


def _rows(report: Report, output_format: Format) -> Iterator[dict[str, Any]]:
    """A row a finding. JSON lines begin with the report's head, without its findings."""
    if output_format == "jsonl":
        yield {name: value for name, value in report.to_json().items() if name != "findings"}
    from rocketfsck.verify.report import finding_to_json

    for finding in report.findings:
        row = finding_to_json(finding)
        if output_format == "jsonl":
            yield {"kind": "rocketfsck.finding", **row}
            continue
        where = {name: getattr(finding.where, name) for name in type(finding.where).__slots__}
        yield row | where | {"found": dict(finding.found), "expected": dict(finding.expected)}


_HARMS: tuple[tuple[Callable[[Start], object], str], ...] = (
    (lambda start: start.queues_destroyed, "C8"),
    (lambda start: start.losses.cut_record_count, "C1 C2 C3 C4 C5 C10 C7"),
    (lambda start: start.refusals, "C6 Q6 Q10 I10 C7"),
    (lambda start: start.ignored, "C6"),
    (lambda start: start.losses.new_by_queue_count, "Q7 Q1 Q3 Q2 C2 C5"),
    (lambda start: any(queue.reissued_count for queue in start.queues), "Q7 Q3 Q4 C2 C1"),
    (lambda start: any(queue.shifted_count for queue in start.queues), "Q3 Q7 C2"),
    (lambda start: start.dispatch is not None and start.dispatch.skipped, "C2 C5"),
    (lambda start: start.losses.new_by_key_count, "I1 I2 I10"),
    (lambda start: start.index.blocked_until_offset is not None, "I2 C1 C2"),
)
"""What a start does, worst first, and the classes of damage that make it do so.

A diagnosis is urgent if the start makes its damage worse: one that refuses, deletes or cuts takes more than
the damage itself has.
"""


def urgent_classes(start: Start) -> tuple[str, ...]:
    """Classes of the fault catalogue whose damage this start makes worse, the most urgent first."""
    found = [name for does, classes in _HARMS if does(start) for name in classes.split()]
    return tuple(dict.fromkeys(found))


def ranked(report: Report, start: Start) -> Report:
    """The report with its urgent diagnoses in front, the most urgent first; the others keep their order."""
    order = {name: place for place, name in enumerate(urgent_classes(start))}
    diagnoses = sorted(report.diagnoses, key=lambda diagnosis: order.get(diagnosis.fault_class, len(order)))
    return replace(report, diagnoses=tuple(diagnoses))


def urgent(diagnoses: Iterable[Diagnosis], start: Start) -> tuple[Diagnosis, ...]:
    """Those that are urgent, in the order given."""
    classes = urgent_classes(start)
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis.fault_class in classes)
