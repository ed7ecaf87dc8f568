"""`rocketfsck page REPORT`: a page with pictures, out of what a check has written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.settings import Jobs
from rocketfsck.commands.shared import StoreOptions, refuse_inside
from rocketfsck.common.documents import from_document
from rocketfsck.common.options import STORE, Argument, Option, PathKind
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError


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
def command(line: PageLine) -> None:
    """Write a page with pictures of a store, or of a fleet, as one HTML file that needs no network.

    REPORT is what `check --format json` printed of one store or of several, a Parquet table of `check
    --tables` or the directory of its Parquet or Delta tables, or the data of a page. With --store the page
    has all that `check --report` shows. A file called .json gets the data of the page.
    """
    from rocketfsck.cli.pages.reading import PAGES, page_of_report, page_of_rows, read_said
    from rocketfsck.cli.pages.writing import write_page
    from rocketfsck.pipeline.fleet.model import STORES_KIND

    path, stated, output = line.path, line.stated, line.answer.path
    stores = [] if path is None else [path, *stated.commitlog_paths]
    if output is not None:
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
