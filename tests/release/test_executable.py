"""The one file, in a root directory that holds nothing else: no Python, no C library, no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rocketfsck.scan.machine.library import PROCESSORS

from tests.conftest import Directory
from tests.release.building import PROJECT, executable

pytestmark = pytest.mark.nightly

SCRIPT = """
root=$1 settings=$2 chroot=$3; shift 3
if [ -e "$root/dev/null" ]; then mount --bind /dev/null "$root/dev/null"; fi
mount -t proc proc "$root/proc" && exec /usr/bin/env -i $settings "$chroot" "$root" /rocketfsck "$@"
"""
AS_ROOT = [] if os.geteuid() == 0 else ["--map-root-user"]
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--net", *AS_ROOT]
CHROOT = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "chroot"


class Bare:
    """A root directory with the executable alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("proc", "tmp", "data"):
            (root / name).mkdir(parents=True)
        shutil.copy(executable(), root / "rocketfsck")

    def __call__(self, *words: str, status: int = 0, settings: str = "") -> str:
        """What a command prints there; its exit status is as given, and nothing is left in /tmp."""
        command = [*UNSHARE, "sh", "-c", SCRIPT, "sh", str(self.root), settings, CHROOT, *words]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert list((self.root / "tmp").glob("[!r]*")) == []
        return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    made = Bare(tmp_path_factory.mktemp("bare") / "root")
    made("write", "--synth", "mixed", "--size", "2MiB", "--into", "/data/store", "--no-sync",
         "--commitlog-file-size", "1MiB", "--time-zone", "Asia/Shanghai")  # fmt: skip
    return made


def test_it_is_bound_to_no_library() -> None:
    """The kernel of Linux loads it alone: the file asks for no loader."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    said = subprocess.run(["readelf", "-l", executable()], capture_output=True, text=True, check=True).stdout
    assert "LOAD" in said
    assert "INTERP" not in said


def test_version_help_and_completion(bare: Bare) -> None:
    assert bare("--version") == f"rocketfsck, version {PROJECT['version']}\n"
    assert "First aid:" in bare("--help")
    assert "--level" in bare("check", "--help")
    assert "complete -o nosort" in bare("completion", "bash")


@pytest.mark.parametrize(
    "name", [name for name, kind in PROCESSORS.items() if kind.machine == os.uname().machine]
)
def test_the_kernels_are_those_of_the_file(bare: Bare, name: str) -> None:
    """Compiled code is demanded: without a built library the command would end with an error."""
    settings = (
        f"ROCKETFSCK_KERNELS=compiled ROCKETFSCK_PROCESSOR={name} ROCKETFSCK_CACHE_DIR=/data/cache-{name}"
    )
    document = json.loads(bare("check", "--format", "json", "/data/store", settings=settings))
    assert document["coverage"]["done_count"] == document["coverage"]["task_count"] > 0
    assert document["coverage"]["done_byte_count"] >= 2 << 20
    assert {item["severity"] for item in document["findings"]} <= {"info"}
    assert list((bare.root / "data").glob(f"cache-{name}/kernels-*")) == []


def test_a_damaged_store_is_repaired_and_the_repair_taken_back(bare: Bare) -> None:
    bare("damage", "/data/store", "--fault", "torn-tail", "--into", "/data/torn")
    log = bare.root / "data" / "torn" / "commitlog"
    before = {path.name: path.read_bytes() for path in sorted(log.iterdir())}
    bare("check", "/data/torn", status=4)
    bare("fix", "--yes", "/data/torn", status=1)
    assert {path.name: path.read_bytes() for path in sorted(log.iterdir())} != before
    bare("check", "/data/torn")
    bare("undo", "--yes", "/data/torn")
    assert {path.name: path.read_bytes() for path in sorted(log.iterdir())} == before


def test_queries_and_pages(bare: Bare) -> None:
    words = ("query", "scan", "/data/store", "queue_id >= 0", "--limit", "2", "--format", "jsonl")
    assert len([line for line in bare(*words).splitlines() if '"physical_offset"' in line]) == 2
    (bare.root / "data" / "check.json").write_text(bare("check", "--format", "json", "/data/store"))
    bare("page", "/data/check.json", "--store", "/data/store", "-o", "/data/page.html")
    page = (bare.root / "data" / "page.html").read_text("utf-8")
    assert re.search(r"<script[ >]", page) and re.search(r"<style[ >]", page)


def test_a_database_is_read_by_a_child(bare: Bare, real_dir: Directory) -> None:
    """The child is the executable itself; databases need /dev/null, too."""
    shutil.copytree(real_dir("5.5.0-rocksdb-cq"), bare.root / "data" / "rocksdb")
    bare("check", "/data/rocksdb", status=8)
    (bare.root / "dev").mkdir()
    (bare.root / "dev" / "null").touch()
    document = json.loads(bare("check", "--format", "json", "/data/rocksdb"))
    assert document["checked"]["databases"]["byte_count"] > 0
    assert document["not_checked"] == []


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (("export", "/data/store", "--into", "/data/tables"), "pyarrow"),
        (("check", "/data/store", "--engine", "spark"), "spark"),
    ],
)
def test_what_it_has_not_is_answered(bare: Bare, words: tuple[str, ...], package: str) -> None:
    change = [
        *UNSHARE,
        "sh",
        "-c",
        SCRIPT,
        "sh",
        str(bare.root),
        "",
        shutil.which("chroot") or "/usr/sbin/chroot",
    ]
    done = subprocess.run([*change, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in {8, 16}, done.stderr
    assert package in done.stderr.lower()
    assert "Traceback" not in done.stderr and "Internal error" not in done.stderr
