"""A store and its manifest, from an input or from a seed: all of it under its names, or nothing.

The store and the manifest are built under temporary names next to their places. The manifest gets its name
just before the store does; if anything fails, or is interrupted, nothing is left of either. What a killed
process left of them is removed by the next one (see `publish`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketfsck.common.outputs import is_special
from rocketfsck.errors import UsageError
from rocketfsck.progress import phase
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk.publish import SideFile, building_directory, clear_side_file
from rocketfsck.writer.input.rows import MessageSource
from rocketfsck.writer.manifest import (
    ManifestLevel,
    manifest_document,
    manifest_paths,
    message_line,
    write_document,
)
from rocketfsck.writer.message.messages import MessageError
from rocketfsck.writer.options import WriteOptions, check_options
from rocketfsck.writer.storewriter import StoreWriter, finish, new_writer, put
from rocketfsck.writer.truth import PutRecord, WrittenStore
from rocketfsck.writer.writing import describe

OnPut = Callable[[PutRecord], None]
Sums = Mapping[str, int]
"""CRC-32 of whole files by their paths below the store: of those that it is known of."""

Fill = Callable[[StoreWriter, OnPut | None], Sums]
"""Puts all messages into a new store and tells every record to the second argument, if there is one."""

WRITING = "writing the messages"
PROGRESS_EVERY = 1000
"""Messages between two reports of progress."""


@dataclass(frozen=True, slots=True)
class MadeStore:
    """A store that was made, and the files that were written next to it."""

    store: WrittenStore
    manifest: Path | None
    messages: Path | None


def make_store(
    path: Path | str,
    fill: Fill,
    options: WriteOptions,
    source: Mapping[str, Any],
    *,
    manifest: ManifestLevel = ManifestLevel.BRIEF,
    manifest_path: Path | None = None,
) -> MadeStore:
    """Make a store at `path` of what `fill` puts, and its manifest, which says `source`.

    Nothing may be at any of their places. Raises UsageError for impossible options and places that are
    taken, what `fill` raises, StoreError when files cannot be written; after any error nothing is left.
    """
    target = Path(path).absolute()
    paths = manifest_paths(target, manifest_path)
    full = manifest is ManifestLevel.FULL
    report_path = None if manifest is ManifestLevel.NONE else paths.manifest
    messages_path = paths.messages if full else None
    check_options(options)
    if full and manifest_path is not None and is_special(manifest_path):
        raise UsageError(f"{manifest_path} is not a file, and the list of messages goes next to the manifest")
    for side_path in (report_path, messages_path):
        if side_path is not None:
            clear_side_file(side_path, target)
    for place in (target, report_path, messages_path):
        if place is not None and os.path.lexists(place) and not is_special(place):
            raise UsageError(f"{place} exists, and rocketfsck does not overwrite it")
    side: list[SideFile] = []
    made = False
    try:
        with named_errors(target, "cannot write the store"):
            on_put = None
            if messages_path is not None:
                side.append(SideFile(messages_path, "ascii"))
                on_put = _line_writer(side[0], options)
            if report_path is not None:
                side.append(SideFile(report_path, "ascii"))
            with building_directory(target, replace=False, sync=options.sync) as building:
                writer = new_writer(building, options)
                known = fill(writer, on_put)
                finish(writer)
                written = describe(writer, target)
                if report_path is not None:
                    with_sha256 = manifest is not ManifestLevel.BRIEF
                    document = manifest_document(
                        written, options, source, building, known, with_sha256=with_sha256
                    )
                    write_document(side[-1].stream, document)
                for file in side:
                    file.complete(sync=options.sync)
                for file in side:  # before the store appears: it never is without them
                    file.publish()
            made = True
    finally:
        for file in side:
            file.close()
        for file in side:
            file.end(keep=made)
    return MadeStore(written, report_path, messages_path)


def _line_writer(file: SideFile, options: WriteOptions) -> OnPut:
    dialect = options.dialect

    def write(record: PutRecord) -> None:
        file.stream.write(message_line(record, dialect))

    return write


def fill_from(source: MessageSource) -> Fill:
    """Puts the messages of an input; InputError, with the row, for one that a broker would refuse."""

    def fill(writer: StoreWriter, on_put: OnPut | None) -> Sums:
        with phase(WRITING) as at:
            for message in source:
                try:
                    records = put(writer, message)
                except MessageError as error:
                    raise source.refusal(error) from error
                if on_put is not None:
                    for record in records:
                        on_put(record)
                if writer.message_count % PROGRESS_EVERY == 0:
                    at.at(writer.log.max_offset - writer.options.start_offset)
        return {}

    return fill
