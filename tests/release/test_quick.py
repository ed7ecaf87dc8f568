"""The quick part of the suite against an installed wheel, where there is no source: on each Python found.

The formats, the readers, the scan, the opening of stores, and properties of what is written: tests that need
pytest, Hypothesis and a plain install. Kernels are those of the wheel.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.release.building import ROOT, installed, measured, pythons, run

pytestmark = pytest.mark.nightly

PARTS = ("tests/unit/formats", "tests/unit/reader", "tests/unit/scan", "tests/unit/store", "tests/property")
WITHOUT = {
    "tests/unit/formats/test_layout.py": "pyarrow",
    "tests/unit/formats/test_invented_version.py": "the format reference",
    "tests/unit/scan/machine/test_frames.py": "Numba",
    "tests/unit/scan/machine/test_jit.py": "Numba",
    "tests/unit/scan/machine/test_library.py": "Numba",
    "tests/unit/store/test_lifting.py": "rocksdict",
    "tests/unit/store/test_rocks.py": "rocksdict",
}
"""Tests of these parts that are left out, and what they need."""
TESTERS = ("hypothesis", "iniconfig", "packaging", "pluggy", "pygments", "pytest", "sortedcontainers")
MARKS = "not nightly and not oracle and not spark and not thorough"


def _copy_tests(into: Path) -> Path:
    """The tests alone, with the settings of pytest."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "tests", "pyproject.toml")
    for path in filter(lambda path: (ROOT / path).is_file(), listed.splitlines()):
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, into / path)
    return into


def test_what_is_left_out_is_there() -> None:
    assert [path for path in (*PARTS, *WITHOUT) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("python", pythons(), ids=lambda path: path.parents[1].name)
def test_the_quick_part_of_the_suite(python: Path, tmp_path: Path) -> None:
    venv, alone = installed(python, tmp_path, TESTERS), _copy_tests(tmp_path / "alone")
    place = run(venv / "bin" / "python", "-c", "import rocketfsck; print(rocketfsck.__file__)", cwd=alone)
    assert place.startswith(f"{venv}/lib/")
    ignored = [f"--ignore={path}" for path in WITHOUT]
    words = ("-q", "-p", "no:cacheprovider", "--tb=short", "-m", MARKS, *ignored, *PARTS)
    said = run(venv / "bin" / "python", "-m", "pytest", *words, cwd=alone)
    summary = re.search(r"^(\d+) passed.* in [\d.]+s.*$", said, re.MULTILINE)
    assert summary is not None and int(summary[1]) > 1000
    measured(f"{python.parents[1].name}: quick part of the suite: {summary[0]}")
