"""Where a page goes: a file that appears when it is whole, as HTML, or as its document where it is called
.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any

from rocketfsck.cli.output import open_output
from rocketfsck.common.documents import json_text, to_document
from rocketfsck.common.options import WRITE_FILE, Option

JSON_SUFFIX = ".json"


PageFile = Annotated[
    Path | None,
    Option(
        "Write a page with pictures of the store, too; FILE.json: the data of the page.",
        names=("--report",),
        metavar="FILE.html",
        kind=WRITE_FILE,
    ),
]


def write_page(document: Any, path: Path | None, stores: Sequence[Path]) -> None:
    """Write the page of a document: a `Page`, a `FleetPage`, or either as JSON values.

    Raises UsageError for a file inside one of `stores`, StoreError for one that cannot be written.
    """
    values = document if isinstance(document, dict) else to_document(document)
    with open_output(path, binary=False, forbidden=stores) as stream:
        _write(stream, values, as_json=path is not None and path.suffix == JSON_SUFFIX)


def _write(stream: IO[str], values: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        stream.write(json_text(values, compact=True) + "\n")
    else:
        from rocketfsck.page.html import render

        stream.write(render(values))
