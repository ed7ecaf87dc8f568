"""What the tests of a release are about, built once for all processes that run them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "release-tests"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TIME = {"SOURCE_DATE_EPOCH": "1700000000"}


def run(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] = {}, status: int = 0) -> str:
    """What a command prints; AssertionError with all that it said where its exit status is another one."""
    cleaned = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_REQ"))
    }
    done = subprocess.run(
        [os.fspath(word) for word in words], cwd=cwd, env={**cleaned, **env}, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == status, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _is_source(path: str) -> bool:
    return not path.startswith((".ci/", "tests/"))


@cache
def sources() -> tuple[str, ...]:
    """The files that a release is made of, as git has them; new ones, too."""
    said = run("git", "ls-files", "--cached", "--others", "--exclude-standard")
    return tuple(path for path in said.splitlines() if _is_source(path) and (ROOT / path).is_file())


@cache
def _key() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.encode() + b"\0" + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return digest.hexdigest()[:16]


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A directory that `make` filled, for this very source; what other sources made is removed."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = PLACE / f"{name}-{_key()}"
        if not done.is_dir():
            for old in PLACE.glob(f"{name}-*"):
                shutil.rmtree(old)
            part = PLACE / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.replace(done)
    return done


def copied(directory: Path) -> Path:
    """A copy of the source, as a clone has it, but without its history."""
    for path in sources():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, directory / path)
    return directory


def build(source: Path, kind: str, into: Path, *, kernels: bool = False) -> Path:
    """A wheel or a source distribution, built as `make wheel` does."""
    asked = {"ROCKETFSCK_BUILD_KERNELS": "1"} if kernels else {}
    command = (sys.executable, "-m", "hatchling", "build", "-d", into, "-t", kind)
    run(*command, cwd=source, env={**TIME, **asked})
    (made,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def wheel_with_kernels() -> Path:
    """The wheel for this machine."""

    def make(part: Path) -> None:
        build(copied(part / "source"), "wheel", part / "dist", kernels=True)

    (found,) = (once("wheel", make) / "dist").glob("*.whl")
    return found


def executable() -> Path:
    """The one file: what ROCKETFSCK_EXECUTABLE names, or built by `make executable`."""
    if named := os.environ.get("ROCKETFSCK_EXECUTABLE"):
        return Path(named).absolute()

    def make(part: Path) -> None:
        run("make", "executable", env=TIME)
        (made,) = (ROOT / "build" / "dist").glob("rocketfsck-*-linux-*")
        shutil.copy(made, part / "rocketfsck")

    return once("executable", make) / "rocketfsck"


def pythons() -> list[Path]:
    """Each supported Python of this machine, the newest of each minor version."""
    found: dict[tuple[int, int], Path] = {}
    minors = [
        tuple(map(int, line.split()[-1].split("."))) for line in PROJECT["classifiers"] if ":: 3." in line
    ]
    for major, minor in minors:
        places = list((Path.home() / ".pyenv" / "versions").glob(f"{major}.{minor}.*/bin/python"))
        on_path = shutil.which(f"python{major}.{minor}")
        if on_path and "pyenv/shims" not in on_path:
            places.append(Path(on_path))
        if places:
            found[major, minor] = max(places, key=lambda path: [*map(int, re.findall(r"\d+", str(path)))])
    return list(found.values()) or [Path(sys.executable)]


def requirements(into: Path, further: tuple[str, ...] = ()) -> Path:
    """A file with what a plain install needs, and `further` packages, as the lock file has them: versions and
    hashes."""
    plain = {re.match(r"[\w-]+", line)[0].lower() for line in PROJECT["dependencies"]}  # type: ignore[index]
    needed = {*plain, *further}
    blocks = re.split(r"\n(?=\w)", (ROOT / "constraints.txt").read_text("utf-8"))
    wanted = [block for block in blocks if (name := re.match(r"[\w-]+", block)) and name[0].lower() in needed]
    assert {re.match(r"[\w-]+", block)[0].lower() for block in wanted} == needed  # type: ignore[index]
    path = into / "requirements.txt"
    path.write_text("\n".join(wanted) + "\n", "utf-8")
    return path


def installed(python: Path, into: Path, further: tuple[str, ...] = ()) -> Path:
    """A new environment with the wheel, what it needs and `further` packages."""
    venv = into / "venv"
    run(python, "-m", "venv", venv)
    pip = (venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
    run(*pip, "--require-hashes", "--requirement", requirements(into, further))
    run(*pip, wheel_with_kernels())
    return venv


def measured(line: str) -> None:
    """Add a line to the figures of this run."""
    with (ROOT / "build" / "wheel-test.txt").open("a") as file:
        file.write(f"{line}\n")
