"""Reading: exact bytes, or a StoreError with path and position."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.store import reading
from rocketfsck.store.reading import FileReader, data_extents, first_unequal, read_at, read_some, read_whole


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(bytes(range(256)) * 4)
    return path


def test_reads_exactly_what_is_asked_for(file: Path) -> None:
    assert read_at(file, 254, 4) == b"\xfe\xff\x00\x01"
    assert read_at(os.fspath(file), 1024, 0) == b""
    assert read_whole(file, 1024) == file.read_bytes()
    with FileReader(file) as reader:
        assert (reader.size, reader.mtime_ns) == (1024, file.stat().st_mtime_ns)
        assert reader.allocated_size == file.stat().st_blocks * 512
        buffer = bytearray(6)
        reader.read_into(memoryview(buffer)[2:4], 7)
        assert buffer == b"\0\0\x07\x08\0\0"
        assert reader.read_upto(1020, 100) == b"\xfc\xfd\xfe\xff"
        assert reader.read_upto(1024, 1) == reader.read_upto(-1, 1) == reader.read_upto(5, -1) == b""


def test_a_read_is_put_together_from_partial_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_READ_SIZE", 100)
    assert read_at(file, 3, 1000) == file.read_bytes()[3:1003]


@pytest.mark.parametrize(("pos", "size"), [(1020, 5), (1025, 0), (-1, 1), (0, -1), (1 << 62, 1 << 62)])
def test_asking_past_the_end_is_an_error(file: Path, pos: int, size: int) -> None:
    with pytest.raises(StoreError, match="has 1,024 bytes") as caught:
        read_at(file, pos, size)
    assert (caught.value.path, caught.value.offset) == (os.fspath(file), pos)


def test_read_into_past_the_end_is_an_error(file: Path) -> None:
    with FileReader(file) as reader, pytest.raises(StoreError, match="a read of 1,025 bytes"):
        reader.read_into(bytearray(1025))


def test_a_file_that_shrinks_is_an_error_with_its_name(file: Path) -> None:
    with FileReader(file) as reader:
        os.truncate(file, 300)
        assert reader.read(0, 300) == file.read_bytes()
        with pytest.raises(StoreError, match="ended here during reading") as caught:
            reader.read(200, 200)
    assert (caught.value.path, caught.value.offset) == (os.fspath(file), 300)


def test_a_read_that_fails_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with FileReader(file) as reader:
        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(StoreError, match=r"at byte 10: cannot be read: Input/output error"):
            reader.read(10, 1)


def test_closing_twice_does_nothing(file: Path) -> None:
    reader = FileReader(file)
    reader.close()
    reader.close()


def test_a_whole_file_has_a_limit(file: Path) -> None:
    with pytest.raises(StoreError, match="at most 1,023"):
        read_whole(file, 1023)


@pytest.fixture
def odd_files(tmp_path: Path) -> Iterator[dict[str, Path]]:
    places = {name: tmp_path / name for name in ("fifo", "socket", "loop", "dangling", "directory")}
    os.mkfifo(places["fifo"])
    places["loop"].symlink_to(places["loop"])
    places["dangling"].symlink_to(tmp_path / "nowhere")
    places["directory"].mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket has a short limit
        try:
            server.bind("socket")
        finally:
            os.chdir(before)
        yield {**places, "device": Path("/dev/null")}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fifo", "is a FIFO, not a regular file"),
        ("socket", "is a socket"),
        ("directory", "is a directory"),
        ("device", "is a character device"),
        ("loop", "cannot be opened: Too many levels of symbolic links"),
        ("dangling", "cannot be opened: No such file"),
    ],
)
def test_only_regular_files_are_opened(odd_files: dict[str, Path], name: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        FileReader(odd_files[name])
    assert caught.value.path == os.fspath(odd_files[name])


def test_a_path_that_cannot_be_is_an_error() -> None:
    with pytest.raises(StoreError, match="null"):
        FileReader("a\0b")


def test_a_file_that_turns_into_a_fifo_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = file.with_name("fifo")
    os.mkfifo(fifo)
    status = fifo.stat()
    monkeypatch.setattr(os, "fstat", lambda _: status)
    with pytest.raises(StoreError, match="is a FIFO"):
        FileReader(file)


def test_extents_of_a_sparse_file(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(8 << 20)
        stream.write(b"x" * 4096)
        stream.seek(32 << 20)
        stream.write(b"y" * 4096)
    assert data_extents(path) == [(8 << 20, (8 << 20) + 4096), (32 << 20, (32 << 20) + 4096)]
    with FileReader(path) as reader:
        assert list(reader.data_extents(9 << 20, 20 << 20)) == []
        assert list(reader.data_extents((8 << 20) + 10, (8 << 20) + 20)) == [((8 << 20) + 10, (8 << 20) + 20)]
        assert list(reader.data_extents(40 << 20)) == []


def test_units_that_hold_data(tmp_path: Path) -> None:
    """A unit in which one extent ends and the next begins is there once; the last one may be cut off."""
    path = tmp_path / "units"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
        for pos in (0, 2 * 4096, (1 << 40) - 4096):
            stream.seek(pos)
            stream.write(b"x" * 4096)
    with FileReader(path) as reader:
        whole = (1 << 40) // 20
        assert list(reader.data_units(20)) == [(0, 205), (409, 615), (((1 << 40) - 4096) // 20, whole + 1)]
        assert list(reader.data_units(20, 8500)) == [(0, 205), (409, 425)]
        assert list(reader.data_units(10_000, 40_000)) == [(0, 1), (1, 2)]


def test_where_files_differ_is_found_without_reading_holes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path, data in zip(paths, (b"abcd", b"abXd"), strict=True):
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
            stream.seek(1 << 39)
            stream.write(data)
    with FileReader(paths[0]) as one, FileReader(paths[1]) as two:
        assert first_unequal(one, two) == (1 << 39) + 2
        assert first_unequal(one, one) is None


def test_extents_where_the_file_system_cannot_tell(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: int) -> object:
        def lseek(*_: int) -> int:
            raise OSError(error, "no")

        return lseek

    with FileReader(file) as reader:
        monkeypatch.setattr(os, "lseek", fail(22))
        assert list(reader.data_extents()) == [(0, 1024)]
        monkeypatch.setattr(os, "lseek", fail(5))
        with pytest.raises(StoreError, match="cannot be read: no"):
            list(reader.data_extents())


def test_chunks_leave_holes_out_and_stay_in_the_range(tmp_path: Path) -> None:
    path = tmp_path / "chunks"
    with path.open("wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(8 << 20)
        stream.write(b"x" * (reading.CHUNK_SIZE + 4096))
        stream.seek(32 << 20)
        stream.write(b"y" * 4096)
    start = 8 << 20
    with FileReader(path) as reader:
        assert [(pos, len(data), data[:1]) for pos, data in reader.data_chunks()] == [
            (start, reading.CHUNK_SIZE, b"x"),
            (start + reading.CHUNK_SIZE, 4096, b"x"),
            (32 << 20, 4096, b"y"),
        ]
        assert list(reader.data_chunks(start + 10, start + 13)) == [(start + 10, b"xxx")]
        assert list(reader.data_chunks(40 << 20)) == []


def test_used_end_is_where_the_last_zeros_begin(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(8 << 20)
        stream.write(b"x" + bytes(2 * reading.CHUNK_SIZE))
    with FileReader(path) as reader:
        assert reader.used_end() == (8 << 20) + 1
        assert reader.used_end(9 << 20) == 9 << 20
        assert reader.used_end(0, 8 << 20) == 0
        assert reader.used_end(limit=reading.CHUNK_SIZE) == 0


def test_the_hole_at_a_files_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sizes = tmp_path / "sparse", list[int]()

    def counted(descriptor: int, view: memoryview, pos: int) -> int:
        sizes.append(len(view))
        return read_some(descriptor, view, pos)

    with path.open("wb") as stream:
        stream.truncate(1 << 20)
        stream.write(b"x" * 4096)
        stream.seek(512 << 10)
        stream.write(b"y" * 4096)
    monkeypatch.setattr("rocketfsck.store.reading.read_some", counted)
    wanted = path.read_bytes()
    for pos, size, most in ((0, 256 << 10, 64 << 10), (0, 1 << 20, 1 << 20), (768 << 10, 64 << 10, 0)):
        sizes.clear()
        view = bytearray(b"z" * size)
        assert reading.read_once(str(path), memoryview(view), pos)
        assert bytes(view) == wanted[pos : pos + size] and sum(sizes) <= most
    assert not reading.read_once(str(path), memoryview(bytearray(64 << 10)), 1 << 20)
