"""A kernel cache that is torn, changed or somebody else's costs a compilation and nothing else."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LOAD = """
import pathlib, sys
from rocketfsck.scan.machine import jit

def kernel(number):
    return number * 3 + 1

def cached():
    loaded = jit.entry(kernel)
    assert loaded(13) == 40
    return sum(loaded.stats.cache_hits.values())

path, *variants = map(pathlib.Path, sys.argv[1:])
if not variants:
    print(cached())
for variant in variants:
    path.write_bytes(variant.read_bytes())
    print(cached(), cached())
"""


def run(directory: Path, *arguments: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, arguments or [directory])],
        env={**os.environ, "ROCKETFSCK_CACHE_DIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def cached(directory: Path) -> bool:
    """Whether a new process found its kernel in the cache; it must answer right in any case."""
    return run(directory) == ["1"]


def assert_compiled_anew(directory: Path, scratch: Path, contents: list[bytes]) -> None:
    """Each of these contents costs a compilation, after which the cache is whole again."""
    for number, content in enumerate(contents):
        (scratch / str(number)).write_bytes(content)
    found = run(
        directory, only_kernel(directory), *(scratch / str(number) for number in range(len(contents)))
    )
    assert found == ["0 1"] * len(contents)


def only_kernel(directory: Path) -> Path:
    (path,) = directory.rglob("*.nbc")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A cache directory with one kernel, and that kernel's bytes."""
    directory = tmp_path_factory.mktemp("cache")
    assert not cached(directory)
    assert cached(directory)
    return directory, only_kernel(directory).read_bytes()


def test_every_torn_file_is_compiled_anew(kept: tuple[Path, bytes], tmp_path: Path) -> None:
    directory, content = kept
    size = len(content)
    lengths = sorted({0, 1, 31, 32, 33, 100, *range(0, size, size // 40), size - 1})
    assert_compiled_anew(directory, tmp_path, [content[:length] for length in lengths])
    assert cached(directory)


def test_a_changed_byte_is_never_run(kept: tuple[Path, bytes], tmp_path: Path) -> None:
    directory, content = kept
    changed = [
        content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]
        for place in range(0, len(content), len(content) // 40)
    ]
    garbage = [bytes(len(content)), os.urandom(len(content)), content + b"x"]
    assert_compiled_anew(directory, tmp_path, changed + garbage)


def test_what_a_pickle_would_do_is_not_done(kept: tuple[Path, bytes], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    directory, _ = kept
    only_kernel(directory).write_bytes(bytes(32) + pickle.dumps(Trap()))
    assert not cached(directory)
    assert not (tmp_path / "sprung").exists()


def _pipe(path: Path, _: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path, other: Path) -> None:
    path.replace(other)
    path.symlink_to(other)


@pytest.mark.parametrize(
    "change",
    [
        lambda path, _: path.chmod(0o666),
        lambda path, _: (path.unlink(), path.mkdir()),
        _pipe,
        _link,
    ],
    ids=["others-may-write", "a-directory", "a-pipe", "a-link"],
)
def test_a_file_that_is_not_ours_is_not_read(change: Callable[[Path, Path], object], tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    assert not cached(directory)
    change(only_kernel(directory), tmp_path / "other")
    assert not cached(directory)
    if not only_kernel(directory).is_dir():
        assert cached(directory), "what was in the way has been replaced"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    assert not cached(tmp_path)
    os.chown(only_kernel(tmp_path), 12345, 12345)
    assert not cached(tmp_path)
    assert only_kernel(tmp_path).stat().st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_compiled_anew(tmp_path: Path) -> None:
    assert not cached(tmp_path)
    only_kernel(tmp_path).chmod(0)
    assert not cached(tmp_path)
    assert cached(tmp_path)


def test_files_are_private_and_no_part_is_left(kept: tuple[Path, bytes]) -> None:
    directory, content = kept
    only_kernel(directory).write_bytes(content)
    (folder,) = directory.iterdir()
    assert [path.suffix for path in folder.iterdir()] == [".nbc"]
    assert not stat.S_IMODE(only_kernel(directory).stat().st_mode) & 0o077
