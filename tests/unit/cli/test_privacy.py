"""Who may read what commands write: nobody who may not read the store; `--mode` for whoever wants more."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketfsck.common import outputs

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

Words = Callable[[Path, Path], tuple[object, ...]]
"""The command line of a store, that writes below a directory."""

WRITERS: dict[str, Words] = {
    "check": lambda store, out: ("check", store, "--format", "json", "-o", out / "report"),
    "everything of check": lambda store, out: (
        *("check", store, "--write-baseline", out / "known", "--report", out / "page.html"),
        *("--lost", out / "lost.csv", "--since", out / "state", "-o", out / "text"),
    ),
    "resume": lambda store, out: ("check", store, "--resume", out / "resume", "-o", out / "text"),
    "dump": lambda store, out: ("dump", store, "--format", "csv", "--kind", "commitlog", "-o", out / "rows"),
    "query": lambda store, out: (
        "query",
        "scan",
        store,
        "size > 0",
        "--format",
        "jsonl",
        "-o",
        out / "found",
    ),
    "find": lambda store, out: ("find", store, "0", "-o", out / "evidence"),
    "plan": lambda store, out: ("plan", store, "-o", out / "plan"),
    "export": lambda store, out: ("export", store, "--into", out / "tables"),
    "fleet": lambda store, out: ("check", store, store.parent / "twin", "--tables", out / "tables"),
    "count": lambda store, out: ("count", store, "-o", out / "counts"),
    "rebuild": lambda store, out: ("rebuild", "all", store, "--into", out / "built"),
    "salvage": lambda store, out: ("salvage", store, "--into", out / "saved"),
    "heal": lambda store, out: ("compare", store, store.parent / "twin", "--heal", "--into", out / "healed"),
    "damage": lambda store, out: ("damage", store, "--fault", "torn-tail", "--into", out / "broken"),
    "bugreport": lambda store, out: ("bugreport", store, "-o", out / "bug.tar.gz"),
    "simulate": lambda store, out: ("simulate", store, "--format", "json", "-o", out / "start"),
    "timeline": lambda store, out: ("timeline", store, "--format", "json", "-o", out / "times"),
    "info": lambda store, out: ("info", store, "--format", "json", "-o", out / "info"),
}


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can enter, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="rocketfsck-test-", dir="/tmp"))
    path.chmod(0o755)
    (path / "out").mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _copy(source: Path, target: Path, directory_mode: int, file_mode: int) -> Path:
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(directory_mode if path.is_dir() else file_mode)
    return target


def _modes(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): f"{stat.S_IMODE(path.stat().st_mode):o}" for path in out.rglob("*")}


def _run(cli: Cli, words: Words, public: Path, source: Path, modes: tuple[int, int], *more: object) -> None:
    store = _copy(source, public / "store", *modes)
    _copy(source, public / "twin", *modes)
    ended = cli(*words(store, public / "out"), *more)
    assert ended.code in (0, 1, 4), ended.err
    assert list((public / "out").iterdir())


@pytest.mark.parametrize("umask", [0o022, 0o077], indirect=True, ids=oct)
@pytest.mark.parametrize("name", WRITERS)
def test_outputs_of_a_private_store_are_private(
    cli: Cli, store_dir: Directory, public: Path, umask: int, name: str
) -> None:
    assert umask in (0o022, 0o077)
    _run(cli, WRITERS[name], public, store_dir("5.3.3-basic"), (0o700, 0o600))
    readable = {path: mode for path, mode in _modes(public / "out").items() if int(mode, 8) & 0o077}
    assert readable == {}


@pytest.mark.parametrize("umask", [0o022], indirect=True)
@pytest.mark.parametrize("name", ["check", "salvage"])
@pytest.mark.parametrize(
    ("modes", "hidden", "wanted"),
    [
        ((0o755, 0o644), 0o022, {0o644, 0o755}),
        ((0o750, 0o640), 0o027, {0o640, 0o750}),
        ((0o755, 0o600), 0o077, {0o600, 0o700}),
        ((0o700, 0o644), 0o077, {0o600, 0o700}),
    ],
    ids=["public", "group", "private files", "private directories"],
)
def test_whoever_reads_the_store_reads_the_output(
    cli: Cli,
    store_dir: Directory,
    public: Path,
    umask: int,
    name: str,
    modes: tuple[int, int],
    hidden: int,
    wanted: set[int],
) -> None:
    assert umask == 0o022
    _run(cli, WRITERS[name], public, store_dir("5.3.3-basic"), modes)
    found = {int(mode, 8) for mode in _modes(public / "out").values()}
    assert found <= wanted and not any(mode & hidden for mode in found)
    assert os.umask(0o022) == 0o022, "the umask of before is back"


@pytest.mark.parametrize("umask", [0o077], indirect=True)
@pytest.mark.parametrize("name", ["check", "export", "salvage"])
def test_a_mode_is_what_it_says(cli: Cli, store_dir: Directory, public: Path, umask: int, name: str) -> None:
    assert umask == 0o077
    option = "--file-mode" if name == "export" else "--mode"
    _run(cli, WRITERS[name], public, store_dir("5.3.3-basic"), (0o700, 0o600), option, "640")
    assert {*_modes(public / "out").values()} <= {"640", "750"}


@pytest.mark.parametrize("text", ["8", "999", "rw", "7777", "-1"])
def test_what_is_no_mode_is_refused(cli: Cli, store_dir: Directory, text: str) -> None:
    ended = cli("check", store_dir("5.3.3-basic"), "--mode", text)
    assert ended.code == 16 and "octal" in ended.err


@pytest.mark.parametrize("umask", [0o022], indirect=True)
def test_directories_above_count(cli: Cli, store_dir: Directory, public: Path, umask: int) -> None:
    """A store that everybody could read is private in a directory that nobody else can enter."""
    assert umask == 0o022
    (public / "home").mkdir(mode=0o700)
    store = _copy(store_dir("5.3.3-basic"), public / "home" / "store", 0o755, 0o644)
    assert cli(*WRITERS["check"](store, public / "out")).code == 0
    assert _modes(public / "out") == {"report": "600"}


@pytest.mark.parametrize("umask", [0o022], indirect=True)
def test_documents_of_private_stores_count(cli: Cli, store_dir: Directory, public: Path, umask: int) -> None:
    """A page of a report: nobody reads it who cannot read the report."""
    assert umask == 0o022
    store = _copy(store_dir("5.3.3-basic"), public / "store", 0o755, 0o644)
    report = public / "report.json"
    assert cli("check", store, "--format", "json", "-o", report).code == 0
    assert stat.S_IMODE(report.stat().st_mode) == 0o644
    report.chmod(0o600)
    assert cli("page", report, "-o", public / "out" / "page.html").code == 0
    assert _modes(public / "out") == {"page.html": "600"}


@pytest.mark.parametrize("umask", [0o022], indirect=True)
def test_a_file_that_is_replaced_keeps_its_readers(
    cli: Cli, store_dir: Directory, public: Path, umask: int
) -> None:
    assert umask == 0o022
    store = _copy(store_dir("5.3.3-basic"), public / "store", 0o755, 0o644)
    target = public / "out" / "report"
    target.write_text("old")
    target.chmod(0o640)
    assert cli(*WRITERS["check"](store, public / "out")).code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_groups_count(tmp_path: Path) -> None:
    """What a group may read is for files of this group alone."""
    path = tmp_path / "file"
    path.touch()
    tmp_path.chmod(0o755)
    path.chmod(0o640)
    with outputs.limited():  # whatever ran in this process before
        with outputs.limited():
            outputs._note(str(path), 4)
            group = path.stat().st_gid
            assert outputs.wanted_mode(0o666, group) == 0o660
            assert outputs.wanted_mode(0o666, group + 1) == 0o600
            assert outputs.mode_to_make(0o777) in (0o770, 0o700)
        assert outputs.wanted_mode(0o666, 0) == 0o666
