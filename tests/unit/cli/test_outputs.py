"""Output goes to files, links, devices, pipes, descriptors and `-`; only regular files are replaced."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketfsck.common.outputs import open_through, place_of, write_text
from rocketfsck.errors import EXIT_OPERATIONAL

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

Words = Callable[[Path, Path], tuple[object, ...]]
"""The command line of a store that writes to a place."""

WRITERS: dict[str, Words] = {
    "check": lambda store, place: ("check", "--level", "quick", store, "-o", place),
    "json": lambda store, place: ("check", "--level", "quick", store, "--format", "json", "-o", place),
    "parquet": lambda store, place: ("dump", store / "checkpoint", "--format", "parquet", "-o", place),
    "baseline": lambda store, place: ("check", "--level", "quick", store, "--write-baseline", place),
    "plan": lambda store, place: ("plan", "--level", "quick", store, "-o", place),
    "page": lambda store, place: ("check", "--level", "quick", store, "--report", place),
    "schema": lambda _, place: ("schema", "check", "-o", place),
}


@pytest.fixture
def store(store_dir: Directory) -> Path:
    return store_dir("5.3.3-basic")


@pytest.fixture(params=WRITERS)
def words(request: pytest.FixtureRequest) -> Words:
    return WRITERS[request.param]


class Reader:
    """Takes what comes out of a FIFO, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.data = b""
        self._path = path
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self.data = self._path.read_bytes()

    def wait(self) -> bytes:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.data


def _same(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_ino, stat.S_IFMT(status.st_mode), status.st_rdev


def test_a_device_stays_a_device(cli: Cli, store: Path, words: Words) -> None:
    before = _same(Path("/dev/null"))
    ended = cli(*words(store, Path("/dev/null")))
    assert ended.code != EXIT_OPERATIONAL, ended.err
    assert _same(Path("/dev/null")) == before


def test_a_link_to_a_device_stays(cli: Cli, store: Path, words: Words, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    before = _same(link), _same(Path("/dev/null"))
    assert cli(*words(store, link)).code != EXIT_OPERATIONAL
    assert (_same(link), _same(Path("/dev/null"))) == before


def test_a_full_device_is_an_error(cli: Cli, store: Path, words: Words) -> None:
    ended = cli(*words(store, Path("/dev/full")))
    assert ended.code & EXIT_OPERATIONAL
    assert "/dev/full: cannot be written: No space left on device" in ended.err
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_gets_what_a_file_gets(cli: Cli, store: Path, words: Words, tmp_path: Path) -> None:
    file, fifo = tmp_path / "file", tmp_path / "fifo"
    assert cli(*words(store, file)).code != EXIT_OPERATIONAL
    os.mkfifo(fifo)
    reader = Reader(fifo)
    assert cli(*words(store, fifo)).code != EXIT_OPERATIONAL
    assert len(reader.wait()) == pytest.approx(file.stat().st_size, rel=0.05), "but for times of the run"
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_a_descriptor_is_written_where_it_is(cli: Cli, store: Path, tmp_path: Path) -> None:
    """As with `>> file` and `-o /dev/fd/N`: what is in the file stays."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as stream:
        inode = os.fstat(stream.fileno()).st_ino
        for place in (f"/dev/fd/{stream.fileno()}", f"/proc/self/fd/{stream.fileno()}"):
            assert cli(*WRITERS["check"](store, Path(place))).code == 0
    text = log.read_text()
    assert text.startswith("before\n") and text.count("Nothing is wrong") == 2
    assert log.stat().st_ino == inode


def test_a_link_is_written_through(cli: Cli, store: Path, words: Words, tmp_path: Path) -> None:
    for name in ("there", "not yet"):
        folder = tmp_path / name
        folder.mkdir()
        target, link = folder / "target", tmp_path / f"link {name}"
        if name == "there":
            target.write_text("old")
        link.symlink_to(f"{name}/target")
        before = _same(link)
        assert cli(*words(store, link)).code != EXIT_OPERATIONAL
        assert _same(link) == before
        assert target.stat().st_size > 10 and not target.is_symlink()
        assert list(folder.iterdir()) == [target]


def test_links_in_a_circle_are_an_error(cli: Cli, store: Path, words: Words, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    ended = cli(*words(store, tmp_path / "a"))
    assert ended.code & EXIT_OPERATIONAL
    assert "cannot be written" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_dash_is_standard_output(
    cli: Cli, store: Path, words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    assert cli(*words(store, file)).code != EXIT_OPERATIONAL
    ended = cli(*words(store, Path("-")))
    assert ended.code != EXIT_OPERATIONAL, ended.err
    assert list(tmp_path.iterdir()) == [file], "no file is called -"
    assert len(ended.out) >= file.stat().st_size * 0.5


def test_a_plan_goes_through_a_pipe(cli: Cli, store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    next((root / "index").iterdir()).unlink()
    plan = cli("plan", root, "-o", "-")
    assert json.loads(plan.out)["actions"]
    with _as_stdin(plan.out.encode()):
        applied = cli("apply", "-", "--yes")
    assert applied.code == 1, applied.err
    assert cli("check", "-q", root).code == 0


def test_documents_and_files_come_from_standard_input(cli: Cli, store: Path) -> None:
    report = cli("check", store, "--format", "json").out
    cases: tuple[tuple[bytes, tuple[object, ...], str], ...] = (
        (report.encode(), ("plan", store, "--report", "-"), "no repair is needed"),
        (f"{store}\n".encode(), ("check", "--stores-from", "-"), "Checked 1 store"),
        ((store / "checkpoint").read_bytes(), ("dump", "-", "--kind", "checkpoint"), "physic_msg_timestamp"),
        (next((store / "commitlog").iterdir()).read_bytes(), ("salvage", "-", "--dry-run"), "records found"),
    )
    for data, words, said in cases:
        with _as_stdin(data):
            ended = cli(*words)
        assert said in ended.out, (words, ended.err)


class _as_stdin:  # noqa: N801 - used as a block
    """Standard input, while the block runs, is a pipe with these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __enter__(self) -> None:
        self._saved = os.dup(0)
        read, write = os.pipe()
        os.dup2(read, 0)
        os.close(read)

        def feed() -> None:
            with os.fdopen(write, "wb") as stream:
                stream.write(self._data)

        threading.Thread(target=feed, daemon=True).start()

    def __exit__(self, *_error: object) -> None:
        os.dup2(self._saved, 0)
        os.close(self._saved)


def test_a_failure_leaves_the_file_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    write_text(path, "old")

    def fail(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{name}", fail)
            with pytest.raises(Exception, match="No space left"):
                write_text(path, "new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


def test_own_descriptors_are_told_from_others(tmp_path: Path) -> None:
    assert place_of("/dev/fd/7")[1] == place_of("/proc/self/fd/7")[1] == 7
    assert place_of(f"/proc/{os.getppid()}/fd/1")[1] is None
    assert place_of(tmp_path / "x") == (str(tmp_path.resolve() / "x"), None)
    assert open_through(tmp_path / "x") is None


@pytest.fixture(autouse=True)
def _nothing_at_dash() -> Iterator[None]:
    yield
    assert not Path("-").exists()
