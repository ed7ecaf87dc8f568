"""Whatever the writer writes, the rebuilding makes of the log alone again, byte for byte."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings

from rocketfsck.common.budget import within
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.scan.threads import pieces
from rocketfsck.store import open_store
from rocketfsck.writer import EndState, Event, OutgoingMessage, WriteOptions, write_store

from tests.conftest import NIGHTLY
from tests.property.writer_strategies import broker_conf, stores

AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index")


@contextmanager
def _kernels(compiled: bool) -> Iterator[None]:
    """Small pieces and the compiled kernels, or the plain code."""
    with (
        within(compiled=compiled, jobs=2),
        mock.patch.object(pieces, "PIECE_SIZE", 700),
    ):
        yield


def _files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for area in AREAS
        for path in (root / area).rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@given(made=stores(events=False))
@settings(max_examples=60 if NIGHTLY else 30)
def test_rebuilt_is_what_was_written(compiled: bool, made: tuple[WriteOptions, list[Event]]) -> None:
    options, events = made
    options = replace(options, end_state=EndState.CLEAN)
    # Bit maps cannot be rebuilt.
    sent = [
        replace(event, filter_bit_map=b"") if isinstance(event, OutgoingMessage) else event
        for event in events
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        write_store(root, sent, options)
        conf = Path(folder) / "broker.conf"
        ext = f"enableConsumeQueueExt={str(options.consumequeue_ext).lower()}\n"
        conf.write_text(
            broker_conf(options.geometry, message_index=options.message_index) + "\n" + ext, "ascii"
        )
        store = open_store(root, broker_conf=conf, version=options.version)
        chosen = RebuildOptions(
            queues=True,
            index=options.message_index,
            time_zone=options.time_zone,
            sync=False,
        )
        with _kernels(compiled):
            rebuilt = rebuild_store(store, Path(folder) / "built", chosen)
        ours, written = _files(Path(folder) / "built"), _files(root)
        assert sorted(ours) == sorted(written)
        assert ours == written
        assert not rebuilt.damaged_files
        assert rebuilt.queues is not None
        assert rebuilt.queues.refused_count == 0
