"""Every transcript, and every console block of the guide, is what the commands really print."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketfsck.cli.app import run

from tests.cases.transcript import PLACE_LENGTH, directives, replay
from tests.conftest import Directory

ROOT = Path(__file__).parent.parent.parent
TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
GUIDE = [*sorted((ROOT / "docs" / "guide").glob("*.md")), ROOT / "docs" / "tutorial.md"]
CHINESE = [path for path in sorted((ROOT / "docs" / "zh").rglob("*.md")) if path.stem != "README"]
"""The same pages in Chinese: their commands speak Chinese, too."""
WITHOUT_SPARK = [path for path in GUIDE if path.stem != "spark"]
"""Pages whose Python is run here; `tests/spark` runs that of the other."""
WRITE = os.environ.get("ROCKETFSCK_TRANSCRIPTS") == "write"

WITH_COMMANDS = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
"""An environment in which `rocketfsck` is found, wherever the tests were started from."""

WITHOUT_PYTHON = {
    "broker-does-not-start": "it is for operators",
    "certify": "it is about the command line",
    "convert": "it is about the command line",
    "extract": "it is about the command line",
    "browse": "it is about a program for terminals",
    "words": "it is a list of words",
    "cli": "it is about the command line",
    "fleet-simulation": "a benchmark writes it",
    "interchange": "it is about the command line",
    "limits": "it is about options of the command line",
    "limits-of-repair": "it is about what repairs do",
    "lost-messages": "it is a notebook: tests/spark runs it",
    "sql": "it is a notebook: tests/spark runs it",
    "report-page": "it is about the command line",
    "settings": "it is about the command line",
    "situations": "it is about the command line",
    "since": "it is about the command line",
    "tutorial": "it is about the command line",
    "spark": "its Python needs a session: tests/spark runs it",
}

Prepare = Callable[[str], Path]


@pytest.fixture
def place(
    store_dir: Directory, restart_dir: Directory, group_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Prepare]:
    """A working directory with a name of a known length, with the stores that a text asks for."""
    directory = Path(tempfile.mkdtemp(prefix="rf-", dir="/tmp"))
    assert len(str(directory)) == PLACE_LENGTH

    def prepare(text: str) -> Path:
        monkeypatch.chdir(directory)
        for name, value in directives(text):
            if name == "run":
                subprocess.run(value, shell=True, check=True, env=WITH_COMMANDS)
                continue
            if name == "group":
                subprocess.run(["cp", "-a", "--sparse=always", group_dir(value), "group"], check=True)
                continue
            shutil.rmtree("store", ignore_errors=True)
            shutil.copytree((store_dir if name == "store" else restart_dir)(value), "store")
        return directory

    yield prepare
    shutil.rmtree(directory)


@pytest.mark.parametrize(
    "path", [*TRANSCRIPTS, *GUIDE, *CHINESE], ids=lambda path: f"{'zh-' * (path in CHINESE)}{path.stem}"
)
def test_transcript(
    path: Path, place: Prepare, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if path in CHINESE:
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")

    def answer(arguments: list[str]) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(arguments)
        return code, *capfd.readouterr()

    text = path.read_text("utf-8")
    now = replay(text, answer, place(text), markdown=path.suffix == ".md")
    if WRITE:
        path.write_text(now, "utf-8")
    assert now == text


@pytest.mark.parametrize("path", WITHOUT_SPARK, ids=lambda path: path.stem)
def test_transcript_of_python(path: Path, place: Prepare) -> None:
    text = path.read_text("utf-8")
    place(text)
    code = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(code, {}, path.name, str(path), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        test, out=said.append
    )
    assert not result.failed, "".join(said)
    assert result.attempted or path.stem in WITHOUT_PYTHON


def test_the_guide_shows_every_command() -> None:
    from rocketfsck.cli.commands import COMMANDS

    shown = "".join(path.read_text("utf-8") for path in GUIDE)
    assert [name for name in COMMANDS if f"\n$ rocketfsck {name}" not in shown] == []
