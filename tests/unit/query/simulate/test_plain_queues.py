"""A predicted start is the same whether plain queues are columns or models of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.query.start import load
from rocketfsck.query.start.load import Disk, PlainQueues, plain_queues, queue_directories
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_starts, start_files
from rocketfsck.query.start.startqueues import StartQueues
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.store import Store, open_store

from tests.unit.query.maker import make, message, reopen

VERSIONS = ("4.4.0", "4.5.1", "4.9.8", "5.0.0", "5.1.3", "5.3.3", "5.5.0")


def _no_plain_queues(disk: Disk, area: Path | str, file_size: int) -> PlainQueues:
    found = plain_queues(disk, area, file_size)
    nothing = np.zeros(0, np.int64)
    return replace(
        found,
        names=(),
        order=nothing,
        start=nothing,
        entries=(),
        units=read_short_queues([], []),
        rows={},
        others=tuple(queue_directories(area, disk)),
        _minima={},
        _starts={},
    )


def _starts(store: Store, version: str) -> list[Start] | str:
    try:
        return simulate_starts(store, [version])
    except StoreError as error:
        return str(error)


def _same(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Start]:
    found = {version: _starts(store, version) for version in VERSIONS}
    with monkeypatch.context() as patched:
        patched.setattr(load, "plain_queues", _no_plain_queues)
        assert found == {version: _starts(store, version) for version in VERSIONS}
    return [start for starts in found.values() if isinstance(starts, list) for start in starts]


def _nothing(_root: Path) -> None:
    pass


def _abort(root: Path) -> None:
    abort = root / "abort"
    abort.unlink() if abort.exists() else abort.write_text("")


def _cut(root: Path) -> None:
    """The log ends in the middle of its last file, after a stop that was not orderly."""
    last = sorted((root / "commitlog").glob("0*"))[-1]
    used = len(last.read_bytes().rstrip(b"\0")) // 2
    with last.open("r+b") as stream:
        size = stream.seek(0, 2)
        stream.truncate(used)
        stream.truncate(size)
    (root / "abort").write_text("")


def _expire(root: Path) -> None:
    sorted((root / "commitlog").glob("0*"))[0].unlink()


def _no_log(root: Path) -> None:
    for path in (root / "commitlog").glob("0*"):
        path.unlink()


def _refused(root: Path) -> None:
    (root / "commitlog" / "copy").write_bytes(b"x")


def _no_units(root: Path) -> None:
    """A queue of zeros among the others: some versions throw when they look for its minimum."""
    path = next(path for path in sorted((root / "consumequeue").glob("*/*/0*")) if path.is_file())
    size = path.stat().st_size
    path.write_bytes(b"")
    with path.open("r+b") as stream:
        stream.truncate(size)
    _expire(root)


CHANGES: tuple[Callable[[Path], None], ...] = (
    _nothing,
    _abort,
    _cut,
    _expire,
    _no_log,
    _refused,
    _no_units,
)
STORES = ("4.4.0-trans", "4.9.8-basic", "5.3.3-basic", "5.0.0-innerbatch")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", STORES)
def test_starts_on_stores_of_brokers(
    name: str,
    change: Callable[[Path], None],
    store_copy: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = store_copy(name)
    change(root)
    assert _same(open_store(root), monkeypatch)


@pytest.mark.parametrize("change", CHANGES)
def test_starts_on_short_files(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, [message(number, queue_id=number % 5) for number in range(40)])
    change(tmp_path / "store")
    _same(reopen(tmp_path), monkeypatch)


def test_the_minimum_of_a_queue_that_begins_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's first file was deleted, and some of the second's units are expired."""
    made = make(tmp_path, [message(number, queue_id=number % 2) for number in range(36)])
    files = made.queues[0].files
    assert len(files) == 2
    files[0].path.unlink()
    offsets = np.frombuffer(files[1].path.read_bytes(), UNIT_DTYPE)["offset"].tolist()
    first = made.commitlog.files[1].start_offset or 0
    assert offsets[4] < first <= offsets[5]
    made.commitlog.files[0].path.unlink()
    starts = _same(reopen(tmp_path), monkeypatch)
    assert {start.queues[0].min_offset for start in starts} == {15}


def test_queues_by_name(store_dir: Callable[[str], Path]) -> None:
    store = open_store(store_dir("5.3.3-basic"))
    queues = start_files(store, "5.3.3").queues
    assert isinstance(queues, StartQueues)
    assert queues.models() == []
    assert sorted(queues) == sorted((queue.topic, queue.queue_id) for queue in store.queues)
    assert len(queues) == len(store.queues)
    name = (store.queues[1].topic, store.queues[1].queue_id)
    assert name in queues and ("no topic", 0) not in queues
    assert queues.get(("no topic", 0)) is None
    model = queues[name]
    assert (model.loaded.topic, model.loaded.queue_id) == name
    assert queues.models() == [model] and queues[name] is model
    assert len(queues) == len(store.queues) and len(list(queues)) == len(store.queues)
    assert len(list(queues.values())) == len(queues.models()) == len(store.queues)
    with pytest.raises(TypeError):
        del queues[name]
