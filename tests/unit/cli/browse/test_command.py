"""The command around the screen: what it refuses, and what it says where Textual is missing."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.output import to_json
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import EXIT_USAGE
from rocketfsck.store import open_store
from rocketfsck.verify import check_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

MODEL = Path(rocketfsck.__file__).parent / "cli" / "browse" / "model"


def test_needs_a_terminal(cli: Cli, store_dir: Directory) -> None:
    ended = cli("browse", store_dir("4.4.0-basic"))
    assert ended.code == EXIT_USAGE
    assert ended.err == "Error: browse needs a terminal; dump, query and check print to files and pipes\n"


def test_begins_in_one_place(cli: Cli, store_dir: Directory) -> None:
    ended = cli("browse", store_dir("4.4.0-basic"), "--at", "0", "--find", "key")
    assert ended.code == EXIT_USAGE
    assert "--at and --find exclude each other" in ended.err


def test_says_how_to_install_textual(cli: Cli, store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.cli.commands.browse.is_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "textual", None)
    ended = cli("browse", store_dir("4.4.0-basic"))
    assert ended.code == EXIT_USAGE
    assert len(ended.err.splitlines()) == 1
    assert "pip install 'rocketfsck[browse]'" in ended.err


def test_nothing_else_loads_textual() -> None:
    modules = ("app", "commands.browse", *(f"browse.model.{path.stem}" for path in MODEL.glob("[a-z]*.py")))
    assert len(modules) > 8
    names = ", ".join(f"rocketfsck.cli.{name}" for name in modules)
    code = f"import sys, {names}; print(bool({{'textual', 'rich'}} & {{*sys.modules}}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_a_list_of_files_needs_no_numpy(store_dir: Directory) -> None:
    """What is needed to look into files is imported with the first of them."""
    code = (
        "import sys, rocketfsck.cli.app, rocketfsck.cli.commands.browse, rocketfsck.cli.browse.views.app\n"
        "from rocketfsck.cli.browse.model.files import Shelf\n"
        "from rocketfsck.store import open_store\n"
        "shelf = Shelf(open_store(sys.argv[1]))\n"
        "print(len(shelf.rows) > 3, {'numpy', 'numba', 'rocketfsck.query'} & {*sys.modules})"
    )
    words = [sys.executable, "-c", code, str(store_dir("4.4.0-basic"))]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout == "True set()\n"


@pytest.fixture
def browsed(monkeypatch: pytest.MonkeyPatch) -> list[BrowseApp]:
    """The browsers that commands run, which end at once."""
    apps: list[BrowseApp] = []
    monkeypatch.setattr("rocketfsck.cli.commands.browse.is_terminal", lambda: True)
    monkeypatch.setattr(BrowseApp, "run", lambda app: apps.append(app))
    return apps


def test_a_pattern_names_stores(
    cli: Cli, store_dir: Directory, tmp_path: Path, browsed: list[BrowseApp]
) -> None:
    for name in ("broker-a", "broker-b"):
        (tmp_path / name).symlink_to(store_dir("4.4.0-basic"))
    ended = cli("browse", tmp_path / "broker-*")
    assert (ended.code, ended.err) == (0, "")
    (app,) = browsed
    assert [offer.name for offer in app.offers] == [str(tmp_path / "broker-a"), str(tmp_path / "broker-b")]
    assert app.offers[1].open().shelf.rows
    assert cli("browse", tmp_path / "broker-[a]").code == 0
    assert not browsed[1].offers
    assert browsed[1].session.name == str(tmp_path / "broker-a")


@pytest.mark.parametrize(
    ("pattern", "options", "said"),
    [
        ("nothing-*", (), "no directory matches this pattern"),
        ("broker-*", ("--report", "report.json"), "--report is for one store"),
        ("broker-*", ("--commitlog-path", "."), "--commitlog-path is for one store"),
    ],
)
def test_a_pattern_is_refused(
    pattern: str,
    options: tuple[str, ...],
    said: str,
    cli: Cli,
    tmp_path: Path,
    browsed: list[BrowseApp],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("broker-a", "broker-b", "broker-a/commitlog", "broker-b/commitlog"):
        (tmp_path / name).mkdir()
    (tmp_path / "report.json").write_text("{}")
    ended = cli("browse", pattern, *options)
    assert ended.code == EXIT_USAGE
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not browsed


def _report_of(root: Path, path: Path) -> Path:
    """The report of a check, in a file."""
    path.write_text(to_json(check_store(open_store(root), engine=LocalEngine(1)).to_json()))
    return path


def test_a_report_of_another_store_is_refused(
    cli: Cli, store_dir: Directory, tmp_path: Path, browsed: list[BrowseApp]
) -> None:
    other = store_dir("4.4.0-basic")
    report = _report_of(other, tmp_path / "report.json")
    ended = cli("browse", store_dir("5.3.3-trans"), "--report", report)
    assert ended.code == EXIT_USAGE
    assert ended.err.startswith(f"Error: the report is about another store, {other}, with ")
    assert " files (here 9), " in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not browsed


def test_a_report_of_another_state_is_refused(
    cli: Cli, store_dir: Directory, tmp_path: Path, browsed: list[BrowseApp]
) -> None:
    root = tmp_path / "store"
    shutil.copytree(store_dir("5.3.3-trans"), root)
    report = _report_of(root, tmp_path / "report.json")
    shutil.rmtree(root / "commitlog")
    ended = cli("browse", root, "--report", report)
    assert ended.code == EXIT_USAGE
    assert "the report is about this store in another state, with 9 files (here 8), " in ended.err
    assert "a commit log from 0 on (here none), a commit log up to 65,536 (here none)" in ended.err
    assert not browsed


def test_a_report_goes_with_a_copy_of_its_store(
    cli: Cli, store_dir: Directory, tmp_path: Path, browsed: list[BrowseApp]
) -> None:
    shutil.copytree(store_dir("5.3.3-trans"), tmp_path / "copy")
    report = _report_of(store_dir("5.3.3-trans"), tmp_path / "report.json")
    assert cli("browse", tmp_path / "copy", "--report", report).code == 0
    assert browsed[0].session.findings is not None


def _until(descriptor: int, wanted: bytes, seconds: float = 60) -> bytes:
    """What a terminal shows until it has shown `wanted`."""
    shown = b""
    end = time.monotonic() + seconds
    while wanted not in shown and time.monotonic() < end:
        if select.select([descriptor], [], [], 1)[0]:
            with suppress(OSError):
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    break
                shown += piece
    assert wanted in shown, shown[-2000:]
    return shown


def test_in_a_real_terminal(store_dir: Directory, tmp_path: Path) -> None:
    """Opened, shown and left with q; the command ends with status 0."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover  another process
        os.environ.update(TERM="xterm-256color", COLUMNS="80", LINES="24", HOME=str(tmp_path))
        words = [sys.executable, "-m", "rocketfsck", "browse", str(store_dir("4.4.0-basic"))]
        os.execv(sys.executable, words)
    try:
        _until(terminal, b"commitlog/00000000000000000000")
        os.write(terminal, b"q")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError):
                if select.select([terminal], [], [], 0.2)[0]:
                    os.read(terminal, 1 << 16)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                assert os.waitstatus_to_exitcode(status) == 0
                child = 0
                return
        pytest.fail("q does not end the browser")
    finally:
        os.close(terminal)
        if child:
            os.kill(child, 9)
            os.waitpid(child, 0)
