"""The archive for executors: the whole package, importable from there, its kernels compiled once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.engine.archive import SCRIPT, write_archive
from rocketfsck.errors import UsageError

KERNEL = """
import json
import numpy as np
import rocketfsck
from rocketfsck.scan.machine import jit, library
from rocketfsck.scan.compiled.index import first_difference
slots, heads = np.zeros((2, 1 << 10), np.int32)
slots[7] = 1
before = library._kept(library.cache_directory()) is not None
place = int(first_difference(slots.ctypes.data, len(slots), heads.ctypes.data))
hits = int(before)
found = [rocketfsck.__file__, str(library.cache_directory()), hits, place]
print(json.dumps(found))
"""


def bare_python(archive: Path, *arguments: str, **environment: str) -> str:
    """What a Python says that has what the package needs, and the package from the archive only."""
    done = subprocess.run(
        [sys.executable, "-S", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(archive), sysconfig.get_path("purelib")])}
        | environment,
    )
    return done.stdout


def test_all_of_the_package_is_in_it(tmp_path: Path) -> None:
    archive, script = write_archive(tmp_path / "a")
    again, _ = write_archive(tmp_path / "b")
    assert again.read_bytes() == archive.read_bytes()
    assert script.read_text("utf-8") == SCRIPT
    root = Path(rocketfsck.__file__).parents[1]
    with zipfile.ZipFile(archive) as held:
        assert held.testzip() is None
        names = set(held.namelist())
        assert held.read("rocketfsck/__init__.py") == Path(rocketfsck.__file__).read_bytes()
    wanted = {str(path.relative_to(root)) for path in (root / "rocketfsck").rglob("*.py")}
    assert wanted <= names
    assert not any("__pycache__" in name for name in names)
    assert {name.split("/")[0] for name in names} == {"rocketfsck", "pyspark_rocketmq"}


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written to"):
        write_archive(tmp_path / "file" / "below")


def test_kernels_from_the_archive_are_compiled_once(tmp_path: Path) -> None:
    archive, _ = write_archive(tmp_path)
    cache = tmp_path / "cache"
    first, second = (
        json.loads(bare_python(archive, "-c", KERNEL, ROCKETFSCK_CACHE_DIR=str(cache))) for _ in range(2)
    )
    assert Path(first[0]).is_relative_to(archive)
    assert Path(first[1]).is_relative_to(cache)
    assert first[1] == second[1]
    assert (first[2], second[2]) == (0, 1)
    assert first[3] == second[3] == 7


def test_another_source_is_another_cache(tmp_path: Path) -> None:
    archive, _ = write_archive(tmp_path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content + b"#" if name == "rocketfsck/scan/compiled/index.py" else content)
    directories = {
        json.loads(bare_python(path, "-c", KERNEL, ROCKETFSCK_CACHE_DIR=str(tmp_path / "cache")))[1]
        for path in (archive, other)
    }
    assert len(directories) == 2


def test_the_command_runs_from_it(tmp_path: Path) -> None:
    archive, script = write_archive(tmp_path)
    assert bare_python(archive, str(script), "--version").split()[-1] == rocketfsck.__version__


def test_the_package_is_its_own_application() -> None:
    """Run as a file: its siblings, like `errors`, are no modules of their own."""
    main = Path(rocketfsck.__file__).with_name("__main__.py")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", main, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == rocketfsck.__version__
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "rocketfsck.errors" in imported
    assert not imported & {"errors", "api", "cli"}
