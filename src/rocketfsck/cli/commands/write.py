"""`rocketfsck write`: a store as a broker writes it, from messages or from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.cli.adapter import command_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.commands.write import WriteCommand, write
from rocketfsck.errors import EXIT_CLEAN

if TYPE_CHECKING:
    from rocketfsck.writer.writing import MadeStore


@command_of(WriteCommand)
def command(line: WriteCommand) -> int:
    """Write a store into a new directory, byte for byte as a broker would.

    The messages come from INPUT (JSON lines, Parquet or Arrow; - for JSON lines on standard input), or
    --synth synthesises them. After an error or an interruption, no part of the store is left.
    """
    _tell(write(line), line.into)
    return EXIT_CLEAN


def _tell(made: MadeStore, into: Path) -> None:
    store = made.store
    topics = len({queue.topic for queue in store.queues})
    say_line(
        f"{visible(str(into))}: {count_of(store.message_count, 'message')}, "
        f"{count_of(store.record_count, 'record')}, {byte_size(store.max_offset - store.min_offset)} of "
        f"commit log; {count_of(topics, 'topic')}, {count_of(len(store.queues), 'queue')}, "
        f"{count_of(len(store.index_files), 'index file')}; as {store.version}"
    )
    for path in (made.manifest, made.messages):
        if path is not None:
            say_line(f"  {visible(str(path))}")
    say_line(f"Next: rocketfsck check {visible(str(into))}")
