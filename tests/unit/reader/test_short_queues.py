"""Many queues of one short file each, read at once: the sound ones only."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.reader.shortqueues import FIRST_SIZE, SHORT_SIZE, ShortQueues, read_short_queues

SIZE = 200_000  # 10,000 units
BLANK = (0, (1 << 31) - 1, 0)
Unit = tuple[int, int, int]


def data_of(*units: Unit) -> bytes:
    return b"".join(struct.pack(">qiq", *unit) for unit in units)


def run(count: int, first: int = 1000) -> tuple[Unit, ...]:
    return tuple((first + 100 * number, 100, -number) for number in range(count))


def file_of(path: Path, data: bytes, size: int = SIZE) -> str:
    """A file that begins with these bytes; the rest is a hole."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.truncate(size)
    return str(path)


def read(*paths: str, size: int = SIZE) -> ShortQueues:
    return read_short_queues(paths, [size] * len(paths))


def test_units_of_several_files_side_by_side(tmp_path: Path) -> None:
    many = SHORT_SIZE // 20 - 1
    paths = [
        file_of(tmp_path / str(number), data_of(*run(count))) for number, count in enumerate((3, 1, many))
    ]
    found = read(*paths)
    assert found.place.tolist() == [0, 1, 2]
    assert found.count.tolist() == [3, 1, many]
    assert found.offset[:5].tolist() == [1000, 1100, 1200, 1000, 1000]
    assert found.tags[:4].tolist() == [0, -1, -2, 0]
    assert found.first_offset.tolist() == [1000] * 3
    assert found.last_offset.tolist() == [1200, 1000, 900 + 100 * many]
    assert found.last_size.tolist() == [100] * 3
    assert found.first_from(1100).tolist() == [1, 1, 1]
    assert found.first_from(1101).tolist() == [2, 1, 2]
    assert found.first_from(0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "units",
    [
        (),
        ((1000, 0, 5),),
        ((-1, 100, 5),),
        (BLANK, *run(2)),
        (*run(2), (1100, 100, 0)),
        (*run(2), (1050, 100, 0)),
        (*run(2), (0, 0, 0), (1300, 100, 0)),
        ((0, 0, 0), *run(2)),
        (*run(2), (1 << 62, 100, 0)),
    ],
)
def test_what_is_not_sound_is_left_to_others(units: tuple[Unit, ...], tmp_path: Path) -> None:
    odd = file_of(tmp_path / "odd", data_of(*units))
    sound = file_of(tmp_path / "sound", data_of(*run(2)))
    assert len(read(odd)) == 0
    assert read(odd).odd == ({0: data_of(*units)} if any(map(any, units)) else {})
    found = read(sound, odd, sound)
    assert found.place.tolist() == [0, 2]
    assert found.offset.tolist() == [1000, 1100] * 2
    assert found.bounds.tolist() == [0, 2, 4]


def test_a_unit_that_ends_in_zeros_is_whole(tmp_path: Path) -> None:
    found = read(file_of(tmp_path / "a", data_of((0, 256, 0))))
    assert (found.offset.tolist(), found.size.tolist(), found.tags.tolist()) == ([0], [256], [0])


def test_files_that_are_no_short_ones(tmp_path: Path) -> None:
    start = data_of(*run(2))
    behind = Path(file_of(tmp_path / "behind", start))
    with behind.open("r+b") as stream:
        stream.seek(SIZE - FIRST_SIZE)
        stream.write(b"\1")
    os.mkfifo(tmp_path / "fifo")
    paths = [
        str(behind),
        file_of(tmp_path / "long", data_of(*run(SHORT_SIZE // 20 + 300))),
        file_of(tmp_path / "other size", start, SIZE + 20),
        str(tmp_path / "missing"),
        str(tmp_path / "fifo"),
        str(tmp_path),
        "\0",
        "s3://bucket/consumequeue/T/0/00000000000000000000",
    ]
    assert len(read(*paths)) == 0


def test_a_file_without_a_hole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data_of(*run(2)).ljust(100, b"\0"))
    (tmp_path / "b").write_bytes(data_of(*run(4)) + b"\1")
    assert read(str(tmp_path / "a"), size=100).count.tolist() == [2]
    assert len(read(str(tmp_path / "b"), size=81)) == 0


def test_no_files() -> None:
    found = read()
    assert len(found) == 0
    assert found.bounds.tolist() == [0]
    assert found.first_from(7).tolist() == np.zeros(0).tolist()
