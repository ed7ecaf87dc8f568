"""The wheel, as users install it: alone, in a new environment, on each Python of this machine."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from rocketfsck.cli.manpages import COMPLETIONS, SCRIPTS, man_pages
from rocketfsck.scan.machine.library import PROCESSORS

from tests.release.building import (
    PROJECT,
    build,
    copied,
    installed,
    measured,
    pythons,
    run,
    wheel_with_kernels,
)

pytestmark = pytest.mark.nightly

MACHINE = os.uname().machine
NAMES = [name for name, kind in PROCESSORS.items() if kind.machine == MACHINE]
PROBE = """
import sys
from rocketfsck.cli import main
from rocketfsck.scan.machine import library
sys.argv = ["rocketfsck", *sys.argv[1:]]
try:
    main()
finally:
    for name in ("numba", "llvmlite", "pyarrow"):
        assert name not in sys.modules, name
    maps = open("/proc/self/maps").read()
    print("built", library.built(), str(library.built()) in maps, library.processor(), file=sys.stderr)
"""
"""Runs a command, and says which library of kernels the process had in memory at its end."""


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _libraries(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {Path(name).name for name in archive.namelist() if name.endswith(".so")}


def test_the_wheel_has_kernels_pages_and_completions() -> None:
    with zipfile.ZipFile(wheel_with_kernels()) as archive:
        names = set(archive.namelist())
        data = f"rocketfsck-{PROJECT['version']}.data/data/share"
        pages = {
            Path(name).name: archive.read(name).decode() for name in names if f"{data}/man/man1/" in name
        }
        places = ("bash-completion/completions/rocketfsck", "zsh/site-functions/_rocketfsck",
                  "fish/vendor_completions.d/rocketfsck.fish")  # fmt: skip
        scripts = [archive.read(f"{data}/{place}").decode() for place in places]
    assert pages == man_pages()
    assert scripts == [(SCRIPTS / COMPLETIONS[shell]).read_text("utf-8") for shell in ("bash", "zsh", "fish")]
    assert _libraries(wheel_with_kernels()) == {f"kernels-{name}.so" for name in NAMES}


@pytest.mark.parametrize("python", pythons(), ids=lambda path: path.parents[1].name)
def test_a_plain_install_checks_with_the_kernels_of_the_wheel(python: Path, tmp_path: Path) -> None:
    venv, store = installed(python, tmp_path), tmp_path / "store"
    size = sum(path.lstat().st_size for path in (venv / "lib").rglob("*") if path.is_file())
    rocketfsck = venv / "bin" / "rocketfsck"
    assert run(rocketfsck, "--version") == f"rocketfsck, version {PROJECT['version']}\n"
    for name in NAMES:
        cache = tmp_path / f"cache-{name}"
        env = {"ROCKETFSCK_PROCESSOR": name, "ROCKETFSCK_CACHE_DIR": str(cache)}
        into = store.with_name(f"store-{name}")
        words = ("write", "--synth", "mixed", "--size", "64MiB", "--into", str(into), "--no-sync")
        run(rocketfsck, *words, env={**env, "ROCKETFSCK_KERNELS": "compiled"}, cwd=tmp_path)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            done = subprocess.run(
                [venv / "bin" / "python", "-c", PROBE, "check", "--format", "json", into],
                env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True,
            )  # fmt: skip
            seconds.append(time.perf_counter() - start)
            assert done.returncode == 0, done.stderr
            library = venv / "lib"
            found = re.search(r"^built (\S+) (\w+) (\S+)$", done.stderr, re.MULTILINE)
            assert found is not None
            assert found[1].startswith(str(library)) and found[1].endswith(f"kernels-{name}.so")
            assert (found[2], found[3]) == ("True", name)
        assert list(cache.glob("kernels-*")) == [], "something was compiled"
        measured(
            f"{python.parents[1].name}: installed with pip {size / 1e6:.0f} MB; 64 MiB with {name}: "
            f"first check {seconds[0]:.2f} s, second {min(seconds[1:]):.2f} s"
        )
    assert _tree_hashes(tmp_path / f"store-{NAMES[0]}") == _tree_hashes(tmp_path / f"store-{NAMES[-1]}")


def _tree_hashes(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): _sha256(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    """Another directory, another umask, another order of hashes: the same wheel and the same archive."""
    source = copied(tmp_path / "elsewhere" / "source")
    usual = os.umask(0o077)
    try:
        for path in source.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        wheel = build(source, "wheel", tmp_path / "dist", kernels=True)
        archive = build(source, "sdist", tmp_path / "dist")
    finally:
        os.umask(usual)
    again = build(copied(tmp_path / "third"), "sdist", tmp_path / "again")
    assert wheel.name == wheel_with_kernels().name
    assert _sha256(wheel) == _sha256(wheel_with_kernels())
    assert _sha256(archive) == _sha256(again)


def test_the_source_distribution_builds_a_wheel_without_kernels(tmp_path: Path) -> None:
    archive = build(copied(tmp_path / "source"), "sdist", tmp_path / "dist")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert list(unpacked.rglob("*.so")) == []
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w",
        tmp_path / "plain", unpacked)  # fmt: skip
    (wheel,) = (tmp_path / "plain").iterdir()
    assert wheel.name == f"rocketfsck-{PROJECT['version']}-py3-none-any.whl"
    assert _libraries(wheel) == set()
    with zipfile.ZipFile(wheel) as archive_of, zipfile.ZipFile(wheel_with_kernels()) as full:
        assert set(full.namelist()) - set(archive_of.namelist()) == {
            f"rocketfsck/scan/machine/built/kernels-{name}.so" for name in NAMES
        }
