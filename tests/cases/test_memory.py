"""`--max-memory` is kept: the peak of the process, measured, for stores of two sizes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rocketfsck.cli.paramtypes import NEEDS
from rocketfsck.engine.passes import MIB

from tests.conftest import NIGHTLY

COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "STORE"),
    "rebuild": ("rebuild", "all", "STORE", "--into", "NEW"),
    "count": ("count", "STORE"),
    "export": ("export", "STORE", "--into", "NEW"),
}
SIZES = (20_000, 80_000)
"""Messages: 24 MiB and 94 MiB of commit log in files of 8 MiB."""


def measured(*arguments: object) -> tuple[int, int, str]:
    """The exit status, the peak of memory in bytes and the complaints of a process of its own."""
    # not `ru_maxrss`: Linux counts for a child what its parent had in memory when it forked
    code = (
        "import sys; from rocketfsck.cli.app import run; code = run(sys.argv[1:]); "
        "from rocketfsck.engine.passes import peak_memory_size; "
        "print('PEAK', peak_memory_size(), file=sys.stderr); sys.exit(code)"
    )
    environment = {**os.environ, "ROCKETFSCK_KERNELS": "compiled"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    found = re.search(r"PEAK (\d+)", done.stderr)
    assert found, done.stderr
    return done.returncode, int(found[1]), done.stderr


Written = Callable[[int], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Gives a store of so many messages."""

    @cache
    def write(count: int) -> Path:
        path = tmp_path_factory.mktemp("stores") / f"of-{count}"
        shape = ("--commitlog-file-size", "8MiB", "--slots", 100_000, "--entries", 500_000, "--seed", 1)
        code, _, complaints = measured(
            "write", "--into", path, "--synth", "plain", "--messages", count, *shape
        )
        assert code == 0, complaints
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES if NIGHTLY else SIZES[1:])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_bound_is_kept(name: str, size: int, written: Written, tmp_path: Path) -> None:
    for jobs in (1, 3) if NIGHTLY else (3,) if name == "check" else (1,):
        limit = NEEDS[name].fixed + jobs * NEEDS[name].each
        places = {"STORE": written(size), "NEW": tmp_path / f"new-{jobs}"}
        arguments = [places.get(word, word) for word in COMMANDS[name]]
        code, peak, complaints = measured(*arguments, "--max-memory", limit, "-j", 8)
        assert code == 0, complaints
        assert peak <= limit


def test_too_little_for_one_job(written: Written) -> None:
    code, _, complaints = measured("check", written(SIZES[1]), "--max-memory", 100 * MIB)
    assert code == 16
    assert "at least 384 MiB" in complaints


def test_fewer_jobs_need_less(written: Written) -> None:
    store = written(SIZES[1])
    _, free, _ = measured("check", store, "-j", 8)
    _, bound, _ = measured("check", store, "-j", 8, "--max-memory", NEEDS["check"].least)
    assert bound < free
