"""The fuzzer over all commands: 2,000 mutants always, 100,000 by `make nightly`. Any number by hand:

python -m tests.hostile.fuzz --seeds 0-99999 --jobs 2
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNT, CHUNK = 2_000, 250
NIGHTLY_COUNT, NIGHTLY_CHUNK = 100_000, 5_000


def _fuzz(first: int, count: int) -> None:
    """Run so many seeds in a process of its own: what it needs and forks is not this one's."""
    seeds = f"{first}-{first + count - 1}"
    command = [sys.executable, "-m", "tests.hostile.fuzz", "--jobs", "1", "--seeds", seeds]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    assert f"mutants      {count}\n" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_mutants_of_all_commands(first: int) -> None:
    _fuzz(first, CHUNK)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(COUNT, NIGHTLY_COUNT, NIGHTLY_CHUNK))
def test_more_mutants_of_all_commands(first: int) -> None:
    _fuzz(first, min(NIGHTLY_CHUNK, NIGHTLY_COUNT - first))
