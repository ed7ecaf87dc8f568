"""`check --lost FILE`: the messages that are lost, a row a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.output import BINARY_FORMATS, Format, open_output, open_rows
from rocketfsck.common.options import WRITE_FILE, Option
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report

FORMS: Mapping[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".arrow": "arrow",
    ".parquet": "parquet",
}
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


def lost_form(path: Path) -> Format:
    """The form that a file's name asks for. Raises UsageError."""
    form = FORMS.get(path.suffix)
    if form is None:
        raise UsageError(f"--lost: the name must end in one of {', '.join(FORMS)}: {path}")
    return form


def write_lost(store: Store, report: Report, path: Path, stores: Sequence[Path]) -> None:
    """Write the list. Raises UsageError where nothing was counted, StoreError."""
    from rocketfsck.repair.outlook import LOST_COLUMNS, LOST_KIND, lost_messages

    form = lost_form(path)
    if report.account is None:
        raise UsageError(NOT_COUNTED)
    head = {"kind": LOST_KIND, "store": str(store.root)}
    with (
        open_output(path, binary=form in BINARY_FORMATS, forbidden=stores) as stream,
        open_rows(stream, form, LOST_COLUMNS, head) as writer,
    ):
        for lost in lost_messages(store, report.account):
            writer.write(lost.as_row())
