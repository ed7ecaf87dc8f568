"""Units of sparse queue files: holes are not read, and nothing else is different."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.reader.units import UnitReader, kinds_of, read_blocks, read_data_blocks
from rocketfsck.store.model import ConsumeQueue, MappedFile, MappedFileQueue
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.queues.unitruns import RunList

PAGE = 4096


def queue_of(folder: Path, kind: str, files: list[tuple[int, int, list[tuple[int, bytes]]]]) -> ConsumeQueue:
    """A queue of files (start, size, what is written at which position); the rest of a file is a hole."""
    made = []
    for start, size, writes in files:
        path = folder / f"{start:020d}"
        with path.open("wb") as stream:
            stream.truncate(size)
            for pos, data in writes:
                stream.seek(pos)
                stream.write(data[: max(size - pos, 0)])
        status = path.stat()
        made.append(
            MappedFile(os.fspath(path), path.name, size, status.st_mtime_ns, status.st_blocks * 512, start)
        )
    mapped = MappedFileQueue((os.fspath(folder),), files[0][1], tuple(made))
    return ConsumeQueue("T", 0, kind, mapped, None)  # type: ignore[arg-type]


def runs_by(queue: ConsumeQueue, *, skipping: bool, block_count: int) -> RunList:
    runs = RunList()
    with UnitReader(queue) as reader:
        if not skipping:
            for index, units in read_blocks(reader, block_count):
                runs.add_block(index, units, kinds_of(units))
            return runs
        for index, count, found in read_data_blocks(reader, block_count):
            if found is None:
                assert not any(reader.units(index, count).tobytes())
                runs.add_zeros(index, count)
            else:
                assert len(found) == count
                runs.add_block(index, found, kinds_of(found))
    return runs


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize(("kind", "unit"), [("file", 20), ("batch", 46)])
def test_the_same_runs_with_and_without_holes(kind: str, unit: int, data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    size = data.draw(st.integers(1, 40)) * PAGE + data.draw(st.integers(0, 60))
    files = []
    for number in range(data.draw(st.integers(1, 3))):
        writes = []
        for _ in range(data.draw(st.integers(0, 3))):
            pos = data.draw(st.integers(0, size - 1))
            body = rng.randbytes(data.draw(st.sampled_from([1, unit, 3 * PAGE])))
            writes.append((pos, bytes(len(body)) if data.draw(st.booleans()) else body))
        files.append((number * size, size, writes))
    block_count = data.draw(st.sampled_from([1, 7, 1 << 15]))
    with tempfile.TemporaryDirectory() as folder:
        queue = queue_of(Path(folder), kind, files)
        expected = runs_by(queue, skipping=False, block_count=1 << 15)
        found = runs_by(queue, skipping=True, block_count=block_count)
        assert found.runs == expected.runs
        assert found.not_kept_count == expected.not_kept_count


def test_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = np.array([(7, 100, 3)], np.dtype([("o", ">i8"), ("s", ">i4"), ("t", ">i8")])).tobytes()
    queue = queue_of(tmp_path, "file", [(0, 6_000_000, [(0, unit)])])
    if queue.files[0].allocated_size > 64 * PAGE:
        pytest.skip("this file system has no holes")
    asked = []
    original = FileReader.read_into

    def counted(self: FileReader, view: memoryview | bytearray, pos: int = 0) -> None:
        asked.append(len(view))
        original(self, view, pos)

    monkeypatch.setattr(FileReader, "read_into", counted)
    with UnitReader(queue) as reader:
        pieces = [(index, count, units is None) for index, count, units in read_data_blocks(reader)]
    assert sum(count for _, count, _ in pieces) == 300_000
    assert pieces[-1][2]
    assert sum(asked) <= 64 * PAGE
