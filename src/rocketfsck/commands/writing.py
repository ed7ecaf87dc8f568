"""The options of commands that write stores, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rocketfsck.common.options import WRITE_FILE, Option, PathKind

_INTO = "The new directory, which must not exist; it appears when complete."
_LOCAL = PathKind(local="what is written", written=True)

Into = Annotated[Path, Option(_INTO, metavar="DIR", kind=_LOCAL)]
IntoOrNone = Annotated[Path | None, Option(_INTO, metavar="DIR", kind=_LOCAL)]
IntoRemote = Annotated[Path, Option(_INTO, metavar="DIR", kind=PathKind(written=True))]
"""A URL will do, too."""
Seed = Annotated[
    int | None,
    Option("The same seed gives the same bytes, on any machine; default 0.", metavar="N"),
]
NoSync = Annotated[bool, Option("Do not wait until the bytes are on the disk.")]
TimeZone = Annotated[
    str, Option("The broker's time zone, in which index files are named.", shows_default=True)
]
StartOffset = Annotated[
    int | None,
    Option(
        "Offset of the first byte: of a commit log, or of a file that lost its name.",
        metavar="OFFSET",
        kind="size",
    ),
]
CommitlogFileSize = Annotated[int | None, Option("Size of a commit log file.", kind="size")]
SlotCount = Annotated[
    int | None, Option("Hash slots of an index file.", names=("--slots",), metavar="N", least=1)
]
EntryCount = Annotated[
    int | None, Option("Entries of an index file.", names=("--entries",), metavar="N", least=1)
]
Ledger = Annotated[
    Path | None,
    Option(
        "File that lists the source of every record; default: NAME.ledger.jsonl next to the store.",
        kind=WRITE_FILE,
    ),
]
