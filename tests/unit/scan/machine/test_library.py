"""Object code that is torn, changed or somebody else's is never loaded: it costs a compilation and nothing
else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.scan.machine import library

from tests.unit.scan.machine import small

KERNEL = "tests.unit.scan.machine.small:triple"
LOAD = f"""
import sys
from rocketfsck.scan.machine import library
library.KERNELS = ({KERNEL!r},)
compile, made = library._compile, []
library._compile = lambda *rest: made.append(1) or compile(*rest)
from tests.unit.scan.machine.small import triple
assert triple(13) == 40
print(len(made))
"""
ROOT = Path(small.__file__).parents[4]
CODE = {"small_triple": bytes(range(256)) * 3}


def compiled_count(cache: Path, **environment: str) -> int:
    """How often a new process compiled its kernel, which must answer right in any case."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**os.environ, "ROCKETFSCK_CACHE_DIR": str(cache), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that keeps a kernel, and the file that it is in."""
    monkeypatch.setattr(library, "KERNELS", (KERNEL,))
    (tmp_path / "part").mkdir()
    library._keep(tmp_path, CODE, tmp_path / "part")
    assert library._kept(tmp_path) == CODE
    return tmp_path / "small_triple.o"


def test_a_torn_file_is_none(kept: Path) -> None:
    content = kept.read_bytes()
    for length in range(len(content)):
        kept.write_bytes(content[:length])
        assert library._kept(kept.parent) is None


def test_a_changed_byte_is_never_run(kept: Path) -> None:
    content = kept.read_bytes()
    for place in range(len(content)):
        kept.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        assert library._kept(kept.parent) is None
    for garbage in (bytes(len(content)), os.urandom(len(content)), content + b"x"):
        kept.write_bytes(garbage)
        assert library._kept(kept.parent) is None


def test_code_of_another_kernel_is_none(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.rename(kept.with_name("small_hashed.o"))
    monkeypatch.setattr(library, "KERNELS", ("tests.unit.scan.machine.small:hashed",))
    assert library._kept(kept.parent) is None


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.replace(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", [lambda path: path.chmod(0o666), _folder, _pipe, _link])
def test_a_file_that_is_not_ours_is_not_read(kept: Path, change: Callable[[Path], None]) -> None:
    change(kept)
    assert library._kept(kept.parent) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(kept: Path) -> None:
    os.chown(kept, 12345, 12345)
    assert library._kept(kept.parent) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_none(kept: Path) -> None:
    kept.chmod(0)
    assert library._kept(kept.parent) is None


def test_what_cannot_be_used_is_compiled_anew_and_kept_privately(tmp_path: Path) -> None:
    assert (compiled_count(tmp_path), compiled_count(tmp_path)) == (1, 0)
    (path,) = tmp_path.rglob("*.o")
    assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    assert sorted(file.name for file in path.parent.iterdir()) == ["compiling", "small_triple.o"]
    path.write_bytes(path.read_bytes()[:-1])
    assert (compiled_count(tmp_path), compiled_count(tmp_path)) == (1, 0)


def test_a_compiler_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "KERNELS", ("tests.unit.scan.machine.small:no_such_kernel",))
    monkeypatch.chdir(ROOT)
    with pytest.raises(RuntimeError, match=r"kernels cannot be compiled: .*no_such_kernel.*KERNELS=plain"):
        library._compile(tmp_path, "compiling")


@pytest.mark.parametrize(("flags", "name"), [(library._V3, "x86-64-v3"), (library._V2, "x86-64-v2")])
def test_each_processor_has_the_best_code_that_it_can_run(
    flags: frozenset[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_flags", lambda: flags | {"fpu"})
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv("ROCKETFSCK_PROCESSOR", raising=False)
    assert library.processor.__wrapped__() == name
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert library.processor.__wrapped__() == "arm64"
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    assert library.processor.__wrapped__() is None


def test_a_processor_with_less_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_flags", lambda: library._V2 - {"popcnt"})
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("ROCKETFSCK_PROCESSOR", "x86-64-v3")
    assert library.processor.__wrapped__() is None


@pytest.mark.parametrize(("processor", "machine"), [("arm64", 183), ("x86-64-v2", 62)])
def test_code_for_each_kind_of_machine_is_made_on_any(processor: str, machine: int, tmp_path: Path) -> None:
    """The numbers are those of ELF's e_machine."""
    kernel = "tests.unit.scan.machine.small:all_kinds"
    command = [sys.executable, "-m", "rocketfsck.scan.machine.ahead", processor, str(tmp_path), kernel]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "small_all_kinds.o").read_bytes()
    assert made[:4] == b"\x7fELF" and int.from_bytes(made[18:20], "little") == machine


def test_a_kernel_that_calls_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "allocating.py").write_text(
        "import numpy as np\n"
        "from rocketfsck.scan.machine.jit import entry\n"
        "@entry\n"
        "def kernel(count: int) -> int:\n"
        "    return len(np.zeros(count))\n"
    )
    command = [sys.executable, "-m", "rocketfsck.scan.machine.ahead", "x86-64-v2", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [*command, "allocating:kernel"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "allocating:kernel calls NRT_" in done.stderr
