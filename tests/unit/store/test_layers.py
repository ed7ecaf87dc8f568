"""Files that show through from others read as if their bytes had been written; the lower file stays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.store.areas import list_directory
from rocketfsck.store.places.entries import drop_layers, lay, layers, move_layers
from rocketfsck.store.reading import FileReader, read_once

SIZE = 5000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A file of random bytes, and a sparse file that shows it."""
    lower, thin = tmp_path / "lower", tmp_path / "thin"
    lower.write_bytes(random.Random(1).randbytes(SIZE))
    thin.write_bytes(b"")
    with thin.open("r+b") as file:
        file.truncate(SIZE)
    lay(str(thin), str(lower), SIZE)
    yield lower, thin
    drop_layers(str(tmp_path))
    assert not layers


def put(thin: Path, pos: int, data: bytes) -> None:
    with thin.open("r+b") as file:
        file.seek(pos)
        file.write(data)
    layers[str(thin)].own(pos, pos + len(data))


def resize(thin: Path, size: int) -> None:
    with thin.open("r+b") as file:
        file.truncate(size)
    layers[str(thin)].cut(size)


def test_it_is_listed_with_what_is_on_the_disk(pair: tuple[Path, Path]) -> None:
    """By that, work on it is told to be much or little."""
    lower, thin = pair
    sizes = {entry.name: entry.allocated_size for entry in list_directory(thin.parent)}
    assert sizes["thin"] >= sizes["lower"] > 0
    lower.unlink()
    assert list_directory(thin.parent)[0].allocated_size == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_writes_and_sizes(pair: tuple[Path, Path], seed: int) -> None:
    lower, thin = pair
    original = lower.read_bytes()
    wanted = bytearray(original)
    dice = random.Random(seed)
    for _ in range(dice.randrange(1, 40)):
        if dice.random() < 0.15:
            size = dice.randrange(1, 2 * SIZE)
            resize(thin, size)
            wanted = wanted[:size].ljust(size, b"\0")
            continue
        pos = dice.randrange(len(wanted))
        data = dice.randbytes(dice.randrange(0, min(600, len(wanted) - pos) + 1))
        put(thin, pos, data)
        wanted[pos : pos + len(data)] = data
    with FileReader(thin) as reader:
        assert reader.size == len(wanted)
        assert reader.read(0, reader.size) == wanted
        for _ in range(30):
            start = dice.randrange(len(wanted) + 1)
            end = dice.randrange(start, len(wanted) + 1)
            assert reader.read(start, end - start) == wanted[start:end]
            extents = list(reader.data_extents(start, end))
            assert all(low < high for low, high in extents)
            assert all(one[1] < other[0] for one, other in pairwise(extents))
            shown = bytearray(end - start)
            for low, high in extents:
                shown[low - start : high - start] = wanted[low:high]
            assert shown == wanted[start:end], "what is between the extents is zeros"
        assert reader.used_end() == len(bytes(wanted).rstrip(b"\0"))
    view = bytearray(10)
    assert read_once(str(thin), memoryview(view), 0) == (len(wanted) >= 10)
    assert lower.read_bytes() == original


def test_without_a_layer_the_file_is_read_itself(pair: tuple[Path, Path]) -> None:
    _, thin = pair
    put(thin, 100, b"own")
    drop_layers(str(thin.parent))
    with FileReader(thin) as reader:
        assert reader.read(99, 5) == b"\0own\0"
        assert type(reader) is FileReader


def test_a_layer_follows_its_file(pair: tuple[Path, Path]) -> None:
    lower, thin = pair
    put(thin, 7, b"own")
    (thin.parent / "a").mkdir()
    thin.rename(thin.parent / "a" / "thin")
    move_layers(str(thin), f"{thin.parent}/a/thin")
    (thin.parent / "a").rename(thin.parent / "b")
    move_layers(f"{thin.parent}/a", f"{thin.parent}/b")
    with FileReader(thin.parent / "b" / "thin") as reader:
        assert reader.read(0, 12) == lower.read_bytes()[:7] + b"own" + lower.read_bytes()[10:12]


def test_what_is_not_there_is_an_error(pair: tuple[Path, Path]) -> None:
    lower, thin = pair
    with FileReader(thin) as reader, pytest.raises(StoreError, match="goes beyond them"):
        reader.read(SIZE - 1, 2)
    with FileReader(thin) as reader:
        lower.write_bytes(b"short")
        with pytest.raises(StoreError, match="ended here"):
            reader.read(0, 100)
    lower.unlink()
    with pytest.raises(StoreError, match="cannot be opened"):
        FileReader(thin)
