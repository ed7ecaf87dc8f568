"""`rocketfsck browse STORE`: a store in a terminal, file by file and byte by byte."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import command_of
from rocketfsck.cli.base import scrolling
from rocketfsck.commands.repairing import ReportFile
from rocketfsck.commands.shared import StoreOptions, StorePlace, StoresWanted
from rocketfsck.common.options import Option
from rocketfsck.errors import EXIT_CLEAN, UsageError
from rocketfsck.verify.options import LevelAsked

if TYPE_CHECKING:
    from rocketfsck.cli.browse.views.base import BrowseRequest, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseLine:
    """Which store is looked into, and where the look begins."""

    path: StorePlace
    offset: Annotated[
        str | None,
        Option(
            "Begin here: a physical offset, or TOPIC/QUEUE/QUEUE-OFFSET.", names=("--at",), metavar="OFFSET"
        ),
    ] = None
    key: Annotated[
        str | None,
        Option(
            "Begin at a message with this key, among KEYS or as UNIQ_KEY.", names=("--find",), metavar="KEY"
        ),
    ] = None
    report_path: ReportFile = None
    level: LevelAsked = "full"
    stated: StoreOptions = field(default_factory=StoreOptions)


@command_of(BrowseLine)
def browse_command(line: BrowseLine) -> int:
    """Look into STORE in a terminal: files, records, bytes, findings, repairs.

    browse reads only what is shown and never writes to the store. Press ? for the keys. Of a pattern in
    quotes, browse lists the stores.
    """
    path, offset, key, stated = line.path, line.offset, line.key, line.stated
    if offset is not None and key is not None:
        raise UsageError("--at and --find exclude each other")
    if not is_terminal():
        raise UsageError("browse needs a terminal; dump, query and check print to files and pipes")
    try:
        import textual  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "browse needs Textual, which is not installed: run pip install 'rocketfsck[browse]'"
        ) from error
    from rocketfsck.cli.browse.model.files import Question
    from rocketfsck.cli.browse.views.app import BrowseApp
    from rocketfsck.cli.browse.views.base import BrowseRequest, Offer

    question = Question("offset", offset) if offset is not None else None
    if key is not None:
        question = Question("key", key)
    asked = BrowseRequest(question=question, level=line.level)
    offers = [
        Offer(str(place), partial(_open, place, stated, asked, line.report_path)) for place in _places(path)
    ]
    if len(offers) > 1 and line.report_path is not None:
        raise UsageError(f"--report is for one store, but {path} names {len(offers)}")
    if len(offers) > 1 and stated.commitlog_paths:
        raise UsageError(f"--commitlog-path is for one store, but {path} names {len(offers)}")
    browsed = offers if len(offers) > 1 else offers[0].open()
    with scrolling(sys.stdout):
        app = BrowseApp(browsed)
        app.run()
        if app.return_code:
            raise RuntimeError("the screen ended with an error")
    return EXIT_CLEAN


def _places(path: Path) -> tuple[Path, ...]:
    """The stores that are named: several where `path` is a pattern. Raises as `StoresWanted.find` does."""
    if not {*"*?["} & {*str(path)}:
        return (path,)
    from rocketfsck.pipeline.sources import is_pattern

    places = StoresWanted((path,)).find().places
    if any(map(is_pattern, places)):
        raise UsageError(f"{path}: no directory matches this pattern")
    return places


def _open(place: Path, stated: StoreOptions, asked: BrowseRequest, report_path: Path | None) -> Session:
    from rocketfsck.cli.browse.model.files import Shelf
    from rocketfsck.cli.browse.views.base import Session

    shelf = Shelf(stated.open("browse", place))
    findings = None
    if report_path is not None:
        from rocketfsck.cli.browse.model.findings import load_findings

        findings = load_findings(shelf, report_path)
    return Session(shelf, str(place), asked, findings)


def is_terminal() -> bool:
    """Whether somebody can see the screen and press keys."""
    return sys.stdin.isatty() and sys.stdout.isatty()
