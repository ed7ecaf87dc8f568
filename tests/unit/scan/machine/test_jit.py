"""When kernels are wanted, and that they work where nothing can be cached and on lesser processors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.errors import UsageError
from rocketfsck.scan.machine import jit, library

CHECK = """
import numpy as np
from rocketfsck.scan.machine import library
library.KERNELS = ("tests.unit.scan.machine.small:hashed",)
compile, made = library._compile, []
library._compile = lambda *rest: made.append(1) or compile(*rest)
from tests.unit.scan.machine import small
data = np.frombuffer(b"The quick brown fox" * 40, np.uint8)
expected = 0
for byte in data[:600].tolist():
    expected = (31 * expected + byte) % (1 << 32)
assert small.hashed(data.ctypes.data, 600) == expected
print(1 - len(made), library.cache_directory())
"""
ROOT = Path(__file__).parents[4]


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_size_decides_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROCKETFSCK_KERNELS", raising=False)
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "IN_USE", threading.Event())
    jit._is_warm.cache_clear()
    assert not jit.compiled_wanted(1 << 19)
    assert not jit.compiled_wanted(50 << 20), "compiling takes longer than that"
    assert jit.compiled_wanted(1 << 30)
    assert jit.compiled_wanted(1 << 19), "they are here now"
    jit.IN_USE.clear()
    (tmp_path / "kernels-0" / "x").mkdir(parents=True)
    jit._is_warm.cache_clear()
    assert not jit.compiled_wanted(50 << 20), "kernels of another version"
    place = tmp_path / f"kernels-{library.content_key()}"
    place.mkdir()
    for name in library.KERNELS:
        (place / f"{library.symbol_of(name)}.o").touch()
    jit._is_warm.cache_clear()
    assert not jit.compiled_wanted(1 << 19)
    assert jit.compiled_wanted(1 << 20)
    jit._is_warm.cache_clear()
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "plain")
    assert not jit.compiled_wanted(1 << 30)
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    assert jit.compiled_wanted(0)
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "fast")
    with pytest.raises(UsageError, match="ROCKETFSCK_KERNELS is 'fast'"):
        jit.compiled_wanted(0)


def test_asking_does_not_import_numba() -> None:
    code = "import sys; from rocketfsck.scan.machine.jit import compiled_wanted; compiled_wanted(1 << 40)"
    assert run(code + "; print('numba' in sys.modules, 'llvmlite' in sys.modules)") == "False False\n"


def test_cache_is_private_and_named_by_content(tmp_path: Path) -> None:
    out = run(CHECK, ROCKETFSCK_CACHE_DIR=str(tmp_path / "cache"))
    directory = Path(out.split(maxsplit=1)[1].strip())
    assert directory.parent == tmp_path / "cache"
    assert directory.name.startswith("kernels-")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert any(directory.rglob("*.o"))


@pytest.mark.parametrize("package", ["formats", "scan"])
def test_a_changed_source_has_another_cache(package: str, tmp_path: Path) -> None:
    """Also one in a folder below, and one that is in an archive."""
    root = Path(rocketfsck.__file__).parent
    copy = tmp_path / "rocketfsck"
    for name in ("common", "formats", "scan"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in root.glob("*.py"):
        shutil.copy(path, copy)
    (copy / package / "deeper").mkdir()
    code = "from rocketfsck.scan.machine.library import content_key; print(content_key())"

    def key(place: Path) -> str:
        return run(code, PYTHONPATH=str(place))

    def archived() -> Path:
        return Path(shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, "rocketfsck"))

    before = key(tmp_path)
    assert key(archived()) == before
    for change in (copy / package / "further.py", copy / package / "deeper" / "module.py"):
        change.write_text("PLACE = 28\n")
        after = key(tmp_path)
        assert after != before
        change.write_text("PLACE = 29\n")
        assert key(tmp_path) not in (before, after)
        assert key(archived()) == key(tmp_path)
        change.unlink()


def test_old_kernels_are_forgotten(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"kernels-{number:020x}" / "x").mkdir(parents=True)
        os.utime(tmp_path / f"kernels-{number:020x}", (1000 + number, 1000 + number))
    (tmp_path / "kernels-of-mine").mkdir()
    out = run(CHECK, ROCKETFSCK_CACHE_DIR=str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert Path(out.split(maxsplit=1)[1].strip()).name in names
    assert "kernels-of-mine" in names
    assert [f"kernels-{number:020x}" in names for number in range(12)] == [False] * 5 + [True] * 7


def test_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert run(CHECK, ROCKETFSCK_CACHE_DIR=str(tmp_path / "file" / "cache")).endswith(" None\n")


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    out = run(CHECK, ROCKETFSCK_CACHE_DIR=str(tmp_path))
    Path(out.split(maxsplit=1)[1].strip()).chmod(0o777)
    assert run(CHECK, ROCKETFSCK_CACHE_DIR=str(tmp_path)).endswith(" None\n")


def test_each_processor_has_its_own_kernels(tmp_path: Path) -> None:
    for hits in ("0", "1"):
        for processor in ("x86-64-v2", "x86-64-v3"):
            environment = {"ROCKETFSCK_CACHE_DIR": str(tmp_path), "ROCKETFSCK_PROCESSOR": processor}
            assert run(CHECK, **environment).split()[0] == hits
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("mode", ["auto", "plain", "compiled"])
def test_numbas_switch_to_python_is_no_trap(mode: str, tmp_path: Path) -> None:
    code = """
from rocketfsck.scan.machine import jit
if jit.compiled_wanted(1 << 40):
    from rocketfsck.scan.machine import library
    library.KERNELS = ("tests.unit.scan.machine.small:triple",)
    from tests.unit.scan.machine.small import triple
    assert triple(13) == 40
    print("compiled")
else:
    print("plain")
"""
    environment = {"ROCKETFSCK_KERNELS": mode, "ROCKETFSCK_CACHE_DIR": str(tmp_path)}
    expected = "compiled" if mode == "compiled" else "plain"
    assert run(code, NUMBA_DISABLE_JIT="1", **environment) == f"{expected}\n"
    assert run(code, NUMBA_DISABLE_JIT="0", **environment) == ("plain\n" if mode == "plain" else "compiled\n")


NOTICED = """
from rocketfsck.progress import phase, watched
seen = []
with watched(lambda now: seen.append(now.phase if now is not None else "")), phase("working"):
    exec(CHECK)
print([name for name in dict.fromkeys(seen) if name.startswith("compiling")], library.unkept)
"""


def noticed(**environment: str) -> tuple[str, str]:
    """The directory that a run kept its kernels in, and what it said of compiling them."""
    first, second = run(f"CHECK = {CHECK!r}{NOTICED}", **environment).splitlines()
    return first.split(maxsplit=1)[1], second


def homeless(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose home directory cannot be written, whoever runs the tests."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir(exist_ok=True)
    names = ("ROCKETFSCK_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    return {"HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp"), **dict.fromkeys(names, "")}


def test_without_a_home_kernels_are_compiled_once_all_the_same(tmp_path: Path) -> None:
    environment = homeless(tmp_path)
    own = tmp_path / "tmp" / f"rocketfsck-{os.geteuid()}"
    directory, said = noticed(**environment)
    assert Path(directory).parent == own and own.stat().st_mode & 0o777 == 0o700
    assert said == "['compiling kernels, once (some seconds)'] []"
    assert noticed(**environment) == (directory, "[] []")


@pytest.mark.parametrize("hostile", ["link", "mode", "file"])
def test_a_place_that_somebody_else_prepared_is_not_used(tmp_path: Path, hostile: str) -> None:
    environment = homeless(tmp_path)
    own = tmp_path / "tmp" / f"rocketfsck-{os.geteuid()}"
    (tmp_path / "theirs").mkdir(mode=0o700)
    if hostile == "link":
        own.symlink_to(tmp_path / "theirs")
    elif hostile == "mode":
        own.mkdir()
        own.chmod(0o770)
    else:
        own.touch()
    directory, said = noticed(**environment)
    assert directory == "None" and not list((tmp_path / "theirs").iterdir())
    assert said == "['compiling kernels (some seconds; no directory keeps them)'] ['small_hashed']"


def test_a_place_that_somebody_else_owns_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in homeless(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    user = os.geteuid()
    mine = tmp_path / "tmp" / f"rocketfsck-{user}"
    assert list(library.cache_roots(make=True))[1:] == [mine]
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    mine.rename(mine.with_name(f"rocketfsck-{user + 1}"))
    assert list(library.cache_roots(make=True))[1:] == []
    (mine.with_name(f"rocketfsck-{user + 1}") / "kernels-1").mkdir(mode=0o700)
    assert library._usable(mine.with_name(f"rocketfsck-{user + 1}") / "kernels-1") is None


def test_the_places_come_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in homeless(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/numba")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/user")
    known = [Path("/numba/rocketfsck"), Path("/xdg/rocketfsck"), Path("/home/user/.cache/rocketfsck")]
    assert list(library.cache_roots(make=False)) == known, "asking makes nothing"
    assert list(library.cache_roots(make=True)) == [*known, tmp_path / "tmp" / f"rocketfsck-{os.geteuid()}"]
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", "/only")
    assert list(library.cache_roots(make=True)) == [Path("/only")]
