"""`rocketfsck certify STORE`: what was read, what was proven, what cannot be known, with hashes.

`rocketfsck page REPORT`: a page with pictures, out of what a check has written.

`rocketfsck bugreport STORE -o FILE`: an archive for whoever is to find a bug, without the store's data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination, open_output, verbosely, write_page
from rocketfsck.cli.paramtypes import Jobs
from rocketfsck.cli.show.text import sentence, visible
from rocketfsck.commands.bugreport import BugReport, BugReportCommand, bugreport
from rocketfsck.commands.certify import Certificate, CertifyAnswer, CertifyCommand, certify
from rocketfsck.commands.shared import StoreOptions, refuse_inside
from rocketfsck.common.documents import from_document, printable, to_document
from rocketfsck.common.options import STORE, Argument, Option, PathKind, PutAfter
from rocketfsck.common.outputs import STDOUT
from rocketfsck.common.wording import count_of
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BugReportLine(BugReportCommand):
    """An archive, and the form of what is said of it."""

    answer: Annotated[Destination, Formats(("text", "json"), output=None)]
    jobs: Annotated[Jobs, PutAfter("level")] = None


@command_of(BugReportLine)
def bugreport_command(line: BugReportLine) -> None:
    """Write an archive for a bug report on STORE: versions, findings, and a masked copy.

    Names, keys, hosts and bodies change, their lengths stay. The copy is checked, and the archive says which
    findings of the store it has, too. Look through the archive before you send it.
    """
    if line.output == STDOUT:
        with open_output(line.output, binary=True) as stream:
            bugreport(line, stream)
        return
    about = bugreport(line)
    line.answer.say(lambda: to_document(about), lambda _: _archive_lines(about, line.output))


def _archive_lines(about: BugReport, output: Path) -> Iterator[str]:
    yield f"Wrote {visible(str(output))}"
    total = len(about.findings)
    if about.why_no_copy:
        yield f"  no copy of the store: {about.why_no_copy}"
        yield f"  {count_of(total, 'finding')} without texts and names"
    else:
        yield f"  a masked copy of {count_of(about.copied_file_count, 'file')}"
        if about.dropped_file_count:
            yield f"  {count_of(about.dropped_file_count, 'file')} dropped, which the findings do not need"
        yield f"  {about.kept_count:,} of {count_of(total, 'finding')} are in the copy, too"
        for finding in [finding for finding in about.findings if not finding.kept][:_SHOWN]:
            place = visible(finding.file) or "the store"
            yield f"    not in the copy: {finding.rule} {finding.slug} at {place}"
        if about.new_count:
            yield f"  {count_of(about.new_count, 'finding')} only in the copy"
        for item in about.left_out[:_SHOWN]:
            yield f"  left out: {visible(item.what)}: {sentence(item.reason)}"
    yield "Look through the archive before you send it: its README.txt says what can still be read."


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLine:
    """Of which report a page is made, with which store, and where the page goes."""

    report: Annotated[Path, Argument(metavar="REPORT", kind=PathKind(exists=True))]
    path: Annotated[
        Path | None,
        Option(
            "The store that the report is about, for the map and all else that the report does not have.",
            names=("--store",),
            metavar="STORE",
            kind=STORE,
        ),
    ] = None
    jobs: Jobs = None
    stated: StoreOptions = field(default_factory=StoreOptions)
    answer: Annotated[Destination, Formats()]


@command_of(PageLine)
def page_command(line: PageLine) -> None:
    """Write a page with pictures of a store, or of a fleet, as one HTML file that needs no network.

    REPORT is what `check --format json` printed of one store or of several, a Parquet table of `check
    --tables` or the directory of its Parquet or Delta tables, or the data of a page. With --store the page
    has all that `check --report` shows. A file called .json gets the data of the page.
    """
    from rocketfsck.cli.pages.reading import PAGES, page_of_report, page_of_rows, read_said
    from rocketfsck.pipeline.fleet.model import STORES_KIND

    path, stated, output = line.path, line.stated, line.answer.path
    stores = [] if path is None else [path, *stated.commitlog_paths]
    refuse_inside(output, stores)
    said = read_said(line.report)
    kind = said.get("kind") if isinstance(said, dict) else None
    if path is not None and kind in (STORES_KIND, *PAGES):
        raise UsageError("--store is for the report of one store")
    document: Any
    if kind in PAGES:
        document = _page(said)
    elif kind == STORES_KIND:
        document = page_of_rows(said)
    else:
        store = None if path is None else stated.open("page", path)
        stores += () if store is None else store.commitlog.directories
        document = page_of_report(said, LocalEngine(), store)
    write_page(document, output, stores)


def _page(document: dict[str, Any]) -> Any:
    """The data of a page, as it was written. Raises UsageError for anything else."""
    from rocketfsck.page.fleet import FleetPage
    from rocketfsck.page.model import Page

    if document["kind"] == "rocketfsck.page":
        return from_document(Page, document, "page")
    return from_document(FleetPage, document, "page of a fleet")


SHOWN = 10
"""Names of files or rules that a list shows without --verbose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyLine(CertifyCommand):
    """What is certified or verified, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    verbose: Annotated[bool, PutAfter("against"), verbosely("List every file and every rule.")] = False


@command_of(CertifyLine)
def certify_command(line: CertifyLine) -> int:
    """Read all of STORE, check it at level full, and certify: the SHA-256 of each file, the rules that ran
    and found nothing, those without a part to look at, what was found, what was not checked, what no check
    can know, the verdict.

    The JSON has a hash over itself, which a second certificate of the same store has, too; the time does not
    count. With --against nothing is checked: the files are compared with those of a certificate, and exit
    status 4 means that the store is another one now. certify writes nothing into the store.
    """
    answer = certify(line)
    line.answer.say(
        lambda: to_document(answer.document),
        lambda _: _compared(answer, line) if answer.verified else _lines(answer.certificate, line),
        [line.store_path, *line.stated.commitlog_paths],
    )
    return answer.exit_code


def _compared(answer: CertifyAnswer, line: CertifyLine) -> Iterator[str]:
    count = count_of(answer.certificate.file_count, "file")
    if answer.same:
        yield f"The same: {count}, as certified."
        return
    yield f"Not the same: the certificate has {count}."
    for word, names in (("changed", answer.changed), ("added", answer.added), ("removed", answer.removed)):
        for name in _some(names, line):
            yield f"  {word:<8} {name}"


def _lines(one: Certificate, line: CertifyLine) -> Iterator[str]:
    versions = ", ".join(one.versions) or "of an unknown version"
    yield f"Store        {printable(one.store)} (RocketMQ {versions})"
    yield f"Verdict      {one.state}"
    yield f"Read         {count_of(one.file_count, 'file')}, {count_of(one.byte_count, 'byte')}"
    yield f"Coverage     {one.coverage}"
    yield f"Proven       {count_of(len(one.proven), 'rule')} ran and found nothing"
    if line.verbose:
        yield from (f"  {rule}" for rule in one.proven)
    if one.not_applicable:
        count = count_of(len(one.not_applicable), "rule")
        yield f"No part      {count} had nothing to look at"
    if line.verbose:
        yield from (f"  {rule}" for rule in one.not_applicable)
        yield from (f"  {file.sha256}  {printable(file.path)}" for file in one.files)
    findings = [f"{rule} ({count:,})" for rule, count in one.found.items()]
    yield f"Found        {', '.join(findings) or 'nothing'}"
    for item in one.not_checked:
        yield f"Not checked  {printable(item.what)}: {printable(item.reason)}"
    yield from (f"Not known    {text}" for text in one.unknowable)
    yield f"Certificate  {one.sha256} (rocketfsck {one.tool_version})"


def _some(names: tuple[str, ...], line: CertifyLine) -> Iterator[str]:
    shown = names if line.verbose else names[:SHOWN]
    yield from map(printable, shown)
    if len(shown) < len(names):
        yield f"and {len(names) - len(shown)} more"
