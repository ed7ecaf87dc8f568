"""A few open files, and what is gathered from a stream of several."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rocketfsck.formats.consumequeue import BATCH_UNIT, PRE_BLANK_UNIT
from rocketfsck.formats.dtypes import BATCH_UNIT_DTYPE, UNIT_DTYPE
from rocketfsck.reader.units import StreamReader, Unit
from rocketfsck.store.model import MappedFile, MappedFileQueue
from rocketfsck.store.openfiles import Readers


def test_no_more_files_are_open_than_the_limit(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(path.name.encode() * 4)
    with Readers(2) as readers:
        first, second = readers.opened(paths[0]), readers.opened(paths[1])
        assert readers.opened(paths[0]) is first
        third = readers.opened(paths[2])
        assert (first.fileno(), second.fileno() >= 0) == (-1, True)
        assert readers.opened(paths[0]).read(1, 2) == b"aa"
        assert second.fileno() == -1
    assert third.fileno() == -1


def test_what_is_gathered_is_zero_where_no_file_is(tmp_path: Path) -> None:
    files = []
    for start in (20, 60):
        path = tmp_path / f"{start:020d}"
        path.write_bytes(PRE_BLANK_UNIT)
        files.append(MappedFile(os.fspath(path), path.name, 20, 0, 20, start))
    with StreamReader(MappedFileQueue((os.fspath(tmp_path),), 20, tuple(files))) as stream:
        found = stream.gather(np.array([60, 0, 20, 40, 80, -20, 70]), UNIT_DTYPE)
    assert found["size"].tolist() == [0x7FFFFFFF, 0, 0x7FFFFFFF, 0, 0, 0, 0]
    assert found["offset"].tolist()[:6] == [0] * 6
    assert Unit.of(3, found[0]) == Unit(3, 3, 1, 0, 0x7FFFFFFF, 0)
    assert Unit.of(3, found[0]).is_pre_blank


def test_a_batch_unit_stands_for_several_offsets() -> None:
    values = dict(zip((field.name for field in BATCH_UNIT.fields), (7, 100, 5, 9, 40, 3, -1, 0), strict=True))
    row = np.frombuffer(BATCH_UNIT.build(values), BATCH_UNIT_DTYPE)[0]
    assert Unit.of(2, row) == Unit(2, 40, 3, 7, 100, 5, 9)
