"""The README's transcript is what the demo prints; what is left out there is marked by a line with `…`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import demo

ROOT = Path(__file__).parents[2]
SHOWN_AS = "/data/rocketmq-1"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("demo")
    store, _done = demo.prepare(folder)
    result = subprocess.run(
        [sys.executable, "-m", "rocketfsck", "check", "--level", "full", store.name],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=120,
        text=True,
        env={"PATH": "", "COLUMNS": "100", "NO_COLOR": "1"},
    )
    assert result.returncode == 4, result.stderr
    return result.stdout.replace(str(folder.resolve()), SHOWN_AS).splitlines()


def test_the_readme_shows_what_is_printed(printed: list[str]) -> None:
    block = (ROOT / "README.md").read_text("utf-8").split("<!-- demo -->")[1].split("<!-- end -->")[0]
    lines = [line for line in block.strip().strip("`").removeprefix("console").splitlines() if line.strip()]
    assert lines[0] == "$ rocketfsck check --level full store"
    assert lines[-1] == "(exit status 4)"
    rest = iter(printed)
    missing = []
    for line in lines[1:-1]:
        if line.strip() == "…" or "(0." in line:  # left out; a duration
            continue
        if not any(line == other for other in rest):
            missing.append(line)
            break
    assert not missing, "not printed any more, in this order"
