"""What whoever starts a process leaves it: neither the tests nor the commands give other answers for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Directory

ROOT = Path(__file__).parents[3]
ODD = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "dumb"}
_TOOK = re.compile(r"\d+\.\d+(?:e-\d+)?(?= s\b|,?\n)|(?<=_timestamp\": )\d{13}")
"""How long a step took, and when."""
SHELL = "umask 077; trap '' INT TERM CHLD; exec "


def _started(
    code: str, *, settings: dict[str, str], shell: str = "exec "
) -> subprocess.CompletedProcess[str]:
    """Run Python code without a terminal, from a shell, in an environment of `settings` and little else."""
    few = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        ["sh", "-c", shell + shlex.join([sys.executable, "-c", code])],
        cwd=ROOT,
        env=few | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )


SETTLED = """
import json, os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
before = [signal.getsignal(number) == signal.SIG_IGN for number in (signal.SIGINT, signal.SIGTERM)]
sys.path[:0] = [""]
from tests import surroundings
surroundings.settle()
print(json.dumps({
    "before": before,
    "ignored": [int(n) for n in (2, 15, 17) if signal.getsignal(n) == signal.SIG_IGN],
    "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "umask": os.umask(0),
    "names": [name for name in ("COLUMNS", "FORCE_COLOR", "TERM", "LANGUAGE") if name in os.environ],
    "settings": [os.environ[name] for name in ("LC_ALL", "TZ")],
    "zone": time.strftime("%z", time.localtime(0)),
}))
"""


def test_tests_begin_with_the_same_surroundings() -> None:
    ended = _started(SETTLED, settings=ODD, shell=SHELL)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "before": [True, True],
        "ignored": [],
        "interrupts": True,
        "blocked": 0,
        "umask": 0o022,
        "names": [],
        "settings": ["C.UTF-8", "UTC"],
        "zone": "+0000",
    }


def test_names_of_files_that_are_not_utf_8_stop_the_tests_with_advice() -> None:
    """No process can change how it reads names of files after its start."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = _started("import sys; sys.path[:0] = ['']\n" + SETTLED, settings=plain)
    assert ended.returncode == 1
    assert "start pytest with PYTHONUTF8=1" in ended.stderr


def test_tests_run_with_them() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
    assert (os.environ["LC_ALL"], os.environ["TZ"]) == ("C.UTF-8", "UTC")


@pytest.mark.parametrize(
    "arguments",
    [["info"], ["check", "--level", "full"], ["check", "--format", "json"], ["dump", "--limit", "5"]],
    ids=" ".join,
)
def test_commands_answer_alike_in_every_zone_and_locale(arguments: list[str], store_dir: Directory) -> None:
    """The width is the terminal's; everything else is the store's."""
    store = str(store_dir("5.3.3-basic"))
    code = f"from rocketfsck.cli import main; import sys; sys.argv[1:] = {[*arguments, store]!r}; main()"
    here = _started(code, settings={"COLUMNS": "40"})
    odd = _started(code, settings=ODD, shell=SHELL)
    assert here.stdout
    assert (odd.returncode, odd.stderr) == (here.returncode, here.stderr)
    assert _TOOK.sub("N", odd.stdout) == _TOOK.sub("N", here.stdout)
