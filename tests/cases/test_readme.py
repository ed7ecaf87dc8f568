"""The README's transcript is what the demo's commands print; what is left out there is marked by a `…`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import demo

ROOT = Path(__file__).parents[2]
SHOWN_AS = "/data/rocketmq-1"
LEFT_OUT = "…"
_KEPT = re.compile(r"store\.before-\w+-\w+")
_TIME = re.compile(r"(?<=; level full, )[\d.]+ s$", re.MULTILINE)
_STATUS = re.compile(r"\(exit status (\d+)\)")


README = {"README.md": "C.UTF-8", "docs/zh/README.md": "zh_CN.UTF-8"}
"""The pages with the transcript, and the locale that each is in."""


def _shown(page: str = "README.md") -> list[list[str]]:
    """The transcript's commands, each with its lines."""
    block = (ROOT / page).read_text("utf-8").split("<!-- demo -->")[1].split("<!-- end -->")[0]
    listed: list[list[str]] = []
    for line in block.strip().strip("`").removeprefix("console").splitlines():
        if line.startswith("$ "):
            listed.append([])
        if line.strip():
            listed[-1].append(_KEPT.sub("store.before-ID", line))
    return listed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    demo.prepare(folder)
    return folder


def _printed(folder: Path, command: list[str], locale: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=120,
        text=True,
        env={"PATH": "", "COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": locale, "PYTHONUTF8": "1"},
    )
    text = _KEPT.sub("store.before-ID", done.stdout.replace(str(folder.resolve()), SHOWN_AS))
    return done.returncode, _TIME.sub("0.1 s", text).splitlines()


@pytest.mark.parametrize("page", README)
def test_the_readme_shows_what_is_printed(folder: Path, page: str) -> None:
    shown = _shown(page)
    assert [lines[0].split()[2] for lines in shown] == ["check", "fix", "check", "undo"]
    for first, *lines, last in shown:
        status, printed = _printed(folder, first.split()[1:], README[page])
        assert last == f"(exit status {status})", first
        rest = iter(printed)
        missing = [
            line for line in lines if line.strip() != LEFT_OUT and not any(line == other for other in rest)
        ]
        assert not missing[:1], f"not printed any more, in this order, by {first}"


def test_the_demo_runs_what_the_readme_shows() -> None:
    commands = [" ".join(words) for words, _ in demo.COMMANDS]
    shown = [lines[0].removeprefix("$ rocketfsck ") for lines in _shown()]
    assert [command for command in commands if command in shown] == shown
    statuses = {" ".join(words): status for words, status in demo.COMMANDS}
    last = _STATUS.fullmatch(_shown()[-1][-1])
    assert last is not None
    assert int(last[1]) == statuses["undo store"]
