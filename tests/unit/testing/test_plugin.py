"""The pytest plugin and the guide's example, in a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "testing.md"


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a pytest in a process of its own, which is measured if this one is.

    The plugin is loaded by pytest itself, before a coverage of the same process begins.
    """
    measured = coverage.Coverage.current() is not None
    data = Path(os.environ.get("COVERAGE_FILE", ROOT / ".coverage")).absolute()
    run = (
        "coverage",
        "run",
        f"--rcfile={ROOT / 'pyproject.toml'}",
        f"--data-file={data}",
        "--parallel-mode",
        "-m",
    )
    command = [sys.executable, "-m", *(run if measured else ()), "pytest", "-q", "-p", "no:cacheprovider"]
    command += arguments
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))
    }
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "test_example.py").write_text(example, "utf-8")
    code, output = run_pytest(tmp_path)
    assert code == 0, output
    assert "4 passed" in output


def test_the_example_finds_a_program_that_is_wrong(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    wrong = example.replace(
        "check=True, capture_output=True)\n",
        "check=True, capture_output=True)\n"
        "    file = next(Path(directory, 'consumequeue').glob('*/*/*'))\n"
        "    data = file.read_bytes()\n"
        "    file.write_bytes(data[:8] + bytes([1]) + data[9:])\n",
        1,
    )
    assert wrong != example
    assert "@settings(" in wrong
    # a program started for every step of shrinking would take a minute
    wrong = wrong.replace("import HealthCheck,", "import HealthCheck, Phase,")
    wrong = wrong.replace("@settings(", "@settings(phases=[Phase.generate], ")
    (tmp_path / "test_example.py").write_text(wrong, "utf-8")
    code, output = run_pytest(tmp_path, "-k", "few or whatever")
    assert code == 1, output
    assert "XR007 unit-size" in output
    assert "2 failed" in output


def test_version_and_level_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from rocketfsck.writer import OutgoingMessage\n"
        "def test_it(rocketmq_store, assert_rocketmq_store):\n"
        "    store = rocketmq_store([OutgoingMessage('T', b'x', 1)])\n"
        "    report = assert_rocketmq_store(store)\n"
        "    assert (report.store.dialect, report.level) == ('5.2.0', 'cross')\n"
        "    assert assert_rocketmq_store(store, level='quick').level == 'quick'\n"
    )
    code, output = run_pytest(tmp_path, "--rocketmq-version", "5.2.0", "--rocketmq-level", "cross")
    assert code == 0, output


def test_the_plugin_costs_a_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it(): assert not {'numpy', 'construct', 'hypothesis.core'} & set(sys.modules)\n"
    )
    code, output = run_pytest(tmp_path, "-p", "no:hypothesispytest")
    assert code == 0, output


def test_fixtures_are_explained(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "--fixtures")
    assert code in (0, 5)
    for name in ("assert_rocketmq_store", "rocketmq_store", "damaged_rocketmq_store"):
        assert re.search(rf"^{name}\b", output, re.MULTILINE)


@pytest.mark.parametrize("option", ["--rocketmq-level=deep"])
def test_options_are_checked(option: str, tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, option)
    assert code == 4
    assert "invalid choice" in output


FAILING = """
from rocketfsck.testing import assert_conformant
from rocketfsck.writer import OutgoingMessage

MESSAGES = [OutgoingMessage("T", b"x", 1_700_000_000_000 + n) for n in range(3)]

def my_program(store):  # the writer under test
    file = next((store / "consumequeue").glob("*/*/*"))
    data = file.read_bytes()
    file.write_bytes(data[:8] + bytes([1]) + data[9:])

def test_fixture(rocketmq_store, assert_rocketmq_store):
    store = rocketmq_store(MESSAGES)
    my_program(store)
    assert_rocketmq_store(store)

def test_function(rocketmq_store):
    store = rocketmq_store(MESSAGES)
    my_program(store)
    assert_conformant(store, level="cross")

def test_no_store(assert_rocketmq_store, tmp_path):
    assert_rocketmq_store(tmp_path / "nowhere")

def test_no_such_fault(rocketmq_store, damaged_rocketmq_store):
    damaged_rocketmq_store(rocketmq_store(MESSAGES), "no-fault-is-called-this")

def test_no_message(rocketmq_store):
    rocketmq_store([OutgoingMessage("", b"x", -1)])
"""
SHOWN = {
    "test_fixture": (">       assert_rocketmq_store(store)", "XR007 unit-size"),
    "test_function": ('>       assert_conformant(store, level="cross")', "XR007 unit-size"),
    "test_no_store": ('>       assert_rocketmq_store(tmp_path / "nowhere")', "nowhere"),
    "test_no_such_fault": (
        '>       damaged_rocketmq_store(rocketmq_store(MESSAGES), "no-fault-is-called-this")',
        "no-fault-is-called-this",
    ),
    "test_no_message": ('>       rocketmq_store([OutgoingMessage("", b"x", -1)])', "topic"),
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest shows of each failing test, by its name."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "test_failing.py").write_text(FAILING)
    code, output = run_pytest(folder)
    assert code == 1, output
    assert f"{len(SHOWN)} failed" in output, output
    pieces = re.split(r"^_+ (test_\w+) _+$", output.partition("short test summary")[0], flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.mark.parametrize("name", SHOWN)
def test_a_failure_shows_the_call_and_the_finding(name: str, failures: dict[str, str]) -> None:
    call, finding = SHOWN[name]
    shown = failures[name]
    assert call in shown
    assert finding in "".join(line for line in shown.splitlines() if line.startswith("E  "))
    assert re.findall(r"^(\S+\.py):\d+: ", shown, re.MULTILINE) == ["test_failing.py"]
    assert "src/rocketfsck" not in shown
    assert "During handling" not in shown
    assert len(shown.splitlines()) <= 25
