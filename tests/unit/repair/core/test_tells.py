"""What tells two directories apart: names and kinds, then bytes, then times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketfsck.repair.area.manifests import TIME, Tell, find_tells, side_of


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories with the same names, bytes and times."""
    made = tmp_path / "old", tmp_path / "new"
    for root in made:
        (root / "queue").mkdir(parents=True)
        for name, data in (("queue/0", b"same bytes"), ("log", bytes(1 << 16) + b"end")):
            (root / name).write_bytes(data)
        for path in (root / "queue/0", root / "log", root / "queue"):
            os.utime(path, ns=(1_000, 1_000))
    return made


def tells_of(twins: tuple[Path, Path]) -> tuple[Tell, ...]:
    old, new = map(str, twins)
    return find_tells(old, new)


def test_directories_that_are_the_same_have_no_tells(twins: tuple[Path, Path]) -> None:
    assert tells_of(twins) == ()
    assert side_of(str(twins[0]), ()) == ""


def test_names_lengths_and_links_tell_first(twins: tuple[Path, Path]) -> None:
    old, new = twins
    (old / "queue/0").write_bytes(b"SAME BYTES")
    (new / "log").write_bytes(b"")
    (new / "abort").symlink_to("log")
    os.mkfifo(old / "pipe")
    assert tells_of(twins) == (
        Tell("abort", None, "", "link log"),
        Tell("log", None, "file 65539", "file 0"),
        Tell("pipe", None, "other", ""),
    )
    assert [side_of(str(root), tells_of(twins)) for root in twins] == ["old", "new"]


def test_bytes_tell_before_times(twins: tuple[Path, Path]) -> None:
    old, new = twins
    os.utime(new / "queue/0", ns=(2_000, 2_000))
    with (new / "log").open("r+b") as stream:
        stream.seek(65537)
        stream.write(b"N")
    (tell,) = tells_of(twins)
    assert (tell.file, tell.pos, tell.old, tell.new) == ("log", 65537, b"nd".hex(), b"Nd".hex())
    assert not tell.is_time
    assert [side_of(str(root), [tell]) for root in twins] == ["old", "new"]
    (old / "log").unlink()
    assert side_of(str(old), [tell]) == ""


def test_times_tell_where_nothing_else_does(twins: tuple[Path, Path]) -> None:
    new = twins[1]
    os.utime(new / "queue/0", ns=(2_000, 2_000))
    (tell,) = tells_of(twins)
    assert tell == Tell("queue/0", TIME, "1000", "2000") and tell.is_time
    assert [side_of(str(root), [tell]) for root in twins] == ["old", "new"]
    (new / "queue/0").unlink()
    assert side_of(str(new), [tell]) == ""


def test_one_file_with_two_names_is_not_compared(twins: tuple[Path, Path]) -> None:
    old, new = twins
    (new / "log").unlink()
    os.link(old / "log", new / "log")
    assert tells_of(twins) == ()


def test_as_many_for_as_against_say_nothing(twins: tuple[Path, Path]) -> None:
    root = twins[0]
    tells = [Tell("log", None, "file 65539", "file 0"), Tell("abort", None, "file 0", "")]
    assert side_of(str(root), tells) == ""
