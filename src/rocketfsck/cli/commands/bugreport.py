"""`rocketfsck bugreport STORE -o FILE`: an archive for whoever is to find a bug, without the store's data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination, open_output
from rocketfsck.cli.settings import Jobs
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.commands.bugreport import BugReportCommand, bugreport
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter
from rocketfsck.common.outputs import STDOUT

if TYPE_CHECKING:
    from rocketfsck.commands.bugreports import BugReport

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BugReportLine(BugReportCommand):
    """An archive, and the form of what is said of it."""

    answer: Annotated[Destination, Formats(("text", "json"), output=None)]
    jobs: Annotated[Jobs, PutAfter("level")] = None


@command_of(BugReportLine)
def command(line: BugReportLine) -> None:
    """Write an archive for a bug report on STORE: versions, findings, and a masked copy.

    Names, keys, hosts and bodies change, their lengths stay. The copy is checked, and the archive says which
    findings of the store it has, too. Look through the archive before you send it.
    """
    if line.output == STDOUT:
        with open_output(line.output, binary=True) as stream:
            bugreport(line, stream)
        return
    about = bugreport(line)
    line.answer.say(lambda: to_document(about), lambda _: _lines(about, line.output))


def _lines(about: BugReport, output: Path) -> Iterator[str]:
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
            yield f"  left out: {visible(item.what)}: {visible(item.reason, keep_backslash=True)}"
    yield "Look through the archive before you send it: its README.txt says what can still be read."
