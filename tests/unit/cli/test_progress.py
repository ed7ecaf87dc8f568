"""What a command shows of its progress: a line, lines of JSON, an answer to a signal; never in the way."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli import progress as module
from rocketfsck.cli.progress import Meter, Monitor, bar_line, plain_line
from rocketfsck.progress import notice, part, phase

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

SLOW = """
import sys, time
from rocketfsck.cli.app import run
from rocketfsck.cli.base import Command
from rocketfsck.verify.tasks import execute
from rocketfsck.progress import moved_to
go, whole = sys.stdin, execute.run_unit

def slow(unit):
    moved_to(0)
    if unit.key.startswith("commitlog"):
        print("ready", file=sys.stderr, flush=True)
        go.readline()
    return whole(unit)

execute.run_unit = slow
sys.exit(run(sys.argv[1:]))
"""
"""A check whose first task waits until a line comes in: as if a file took long."""


def _document(**more: Any) -> dict[str, Any]:
    known = {"phase": "checking the index", "done": 512 << 20, "total": 1 << 30, "unit": "bytes", "rate": 1e8}
    return known | {"elapsed_seconds": 75.0, "eta_seconds": 5.4, "note": ""} | more


@contextmanager
def _slow_check(store: Path, *arguments: str, stderr: int, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", SLOW, "check", str(store), "-j", "1", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr, **more
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _read_until(descriptor: int, wanted: Callable[[str], bool]) -> str:
    """What comes until there is enough; at most a minute, on a machine that is busy."""
    text, end = "", time.monotonic() + 60
    while not wanted(text):
        ready, _, _ = select.select([descriptor], [], [], max(end - time.monotonic(), 0))
        assert ready, f"nothing more came than {text!r}"
        chunk = os.read(descriptor, 1 << 16)
        assert chunk, f"ended after {text!r}"
        text += chunk.decode()
    return text


def test_a_line_on_a_terminal_moves_while_a_task_runs(store_dir: Directory) -> None:
    ours, theirs = pty.openpty()
    with _slow_check(store_dir("5.3.3-basic"), stderr=theirs, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(theirs)
        drawn = r"\r[|/\\-] checking .*?\x1b\[K"
        text = _read_until(ours, lambda seen: len(re.findall(drawn, seen)) >= 3)
        assert process.stdin is not None
        process.stdin.write(b"\n" * 100)
        process.stdin.close()
        text += _read_until(ours, lambda seen: seen.endswith("\r\x1b[K"))
        assert process.wait(60) == 0
    os.close(ours)
    lines = re.findall(drawn, text)
    assert len({line[1] for line in lines}) > 1, "the spinner turns"
    assert all(re.search(r" 0 %  .*\d s\b", line) for line in lines[:3]), lines


@pytest.mark.parametrize("options", [(), ("--progress", "none"), ("-q",)])
def test_sigusr1_is_answered_without_a_terminal(store_dir: Directory, options: tuple[str, ...]) -> None:
    read, write = os.pipe()
    with _slow_check(store_dir("5.3.3-basic"), *options, stderr=write) as process:
        os.close(write)
        assert _read_until(read, lambda seen: "ready\n" in seen) == "ready\n"
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            said = _read_until(read, lambda seen: seen.endswith("\n"))
            assert re.fullmatch(r"rocketfsck: checking the [a-z ]+: .* of .*, 0 %, .* so far\n", said), said
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    os.close(read)


def test_sigusr2_turns_plain_lines_on_and_off(capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0.0)
    monitor = Monitor("none")
    monitor.start()
    try:
        with phase("working hard", 10):
            os.kill(os.getpid(), signal.SIGUSR2)
            _wait(lambda: monitor._shows)
            _wait(lambda: monitor._stated > 0)
            os.kill(os.getpid(), signal.SIGUSR2)
            _wait(lambda: not monitor._shows)
    finally:
        monitor.finish(0)
    assert "working hard: 0 B of 10 B, 0 %" in capfd.readouterr().err


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_json_lines_on_a_descriptor(store_dir: Directory) -> None:
    read, write = os.pipe()
    command = [
        sys.executable,
        "-m",
        "rocketfsck",
        "--progress",
        "json",
        "check",
        str(store_dir("5.3.3-basic")),
    ]
    command += ["--progress-fd", str(write)]
    done = subprocess.run(command, pass_fds=[write], capture_output=True, text=True, check=False, timeout=120)
    os.close(write)
    with os.fdopen(read) as stream:
        lines = [json.loads(line) for line in stream]
    assert done.stderr == ""
    assert lines[-1]["type"] == "end" and lines[-1]["exit_status"] == done.returncode == 0
    phases = [line["phase"] for line in lines[:-1]]
    for wanted in ("opening the store", "checking the files", "predicting the broker's start"):
        assert wanted in phases
    assert all(line["done"] <= (line["total"] or line["done"]) for line in lines[:-1])


def test_a_usage_error_of_a_command_ends_the_lines_too(cli: Cli, tmp_path: Path) -> None:
    ended = cli("check", tmp_path / "none", "--progress", "json")
    lines = [json.loads(line) for line in ended.err.splitlines() if line.startswith("{")]
    assert (lines[-1]["type"], lines[-1]["exit_status"]) == ("end", ended.code)
    assert ended.code


@pytest.mark.parametrize("what", ["closed", "read-only"])
def test_a_descriptor_that_cannot_be_written_is_refused(cli: Cli, store_dir: Directory, what: str) -> None:
    read, write = os.pipe()
    os.close(write)
    given = write if what == "closed" else read
    ended = cli("check", store_dir("5.3.3-basic"), "--progress", "json", "--progress-fd", given)
    os.close(read)
    assert ended.code == 16
    assert f"--progress-fd {given}: the descriptor is not open for writing" in ended.err


def test_a_reader_that_has_gone_does_no_harm(cli: Cli, store_dir: Directory) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = cli("check", store_dir("5.3.3-basic"), "--progress", "json", "--progress-fd", write)
    os.close(write)
    assert (ended.code, ended.err) == (0, "")


def test_a_full_pipe_does_not_hold_the_command_up(cli: Cli, store_dir: Directory) -> None:
    read, write = os.pipe()
    room = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.write(write, bytes(room))
    ended = cli("check", store_dir("5.3.3-basic"), "--progress", "json", "--progress-fd", write)
    os.close(write)
    assert (ended.code, ended.err) == (0, "")
    assert os.read(read, 1 << 16) == bytes(room)
    os.close(read)


def test_closed_standard_error_gives_no_lines(store_dir: Directory) -> None:
    text = f"exec {sys.executable} -m rocketfsck check {store_dir('5.3.3-basic')} -q --progress json 2>&-"
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "Healthy" in done.stdout and '"phase"' not in done.stdout


def test_nothing_where_no_terminal_is(cli: Cli, store_dir: Directory, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    assert cli("check", store_dir("5.3.3-basic")).err == ""


def test_the_meter_measures() -> None:
    meter = Meter()
    assert meter.look(None)["phase"] == ""
    with phase("one", 1000, "rows") as at:
        meter.look(_now())
        at.at(500)
        said = meter.look(_now())
        assert (said["done"], said["total"], said["unit"]) == (500, 1000, "rows")
        assert said["rate"] > 0 and said["eta_seconds"] >= 0
        with notice("compiling"):
            held = meter.look(_now())
            assert (held["phase"], held["rate"], held["eta_seconds"]) == ("compiling", 0, None)
    with phase("two"):
        meter.look(_now())
        Path(__file__).read_bytes()
        assert meter.look(_now())["done"] > 1000, "bytes read stand for what nobody counts"
    with phase("three", 10), part(10, "the name of the part"):
        assert meter.look(_now())["phase"] == "the name of the part"


def _now() -> Any:
    from rocketfsck.progress import state

    return state()


def test_without_the_systems_count_nothing_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COUNTS", "/nowhere")
    assert module.bytes_read() == 0


def test_lines() -> None:
    assert plain_line(_document()) == (
        "checking the index: 512.0 MiB of 1.0 GiB, 50 %, 95.4 MiB/s, 1 min 15 s so far, 5.4 s left"
    )
    waiting = _document(phase="", done=0, total=None, rate=0.0, eta_seconds=None, note="Spark: 3 of 12 tasks")
    assert plain_line(waiting) == "working: 1 min 15 s so far, Spark: 3 of 12 tasks"
    counted = _document(done=7, total=None, unit="queues", rate=0.0, eta_seconds=None)
    assert plain_line(counted) == "checking the index: 7 queues, 1 min 15 s so far"


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 200])
def test_the_line_fits_the_terminal(columns: int) -> None:
    name = "opening \x1b[2J store " * 3
    for document in (_document(), _document(phase=name), _document(done=2048, total=None, eta_seconds=None)):
        line = bar_line(document, columns, "|")
        assert len(line) <= max(columns, 24)
        assert "\x1b" not in line
    whole = bar_line(_document(elapsed_seconds=9.4), 200, "|")
    assert whole.startswith("| checking the index  [==========          ]  50 %  512.0 MiB of 1.0 GiB")
    assert whole.endswith("GiB  95.4 MiB/s  9 s  5.4 s left")


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    kept = os.dup(2)
    os.dup2(theirs, 2)
    try:
        monkeypatch.setattr(module, "DELAY_SECONDS", 0.0)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
        monkeypatch.setattr(sys, "stderr", os.fdopen(os.dup(2), "w"))
        monitor = Monitor()
        monitor.start()
        with phase("working", 10):
            said = _read_until(ours, lambda seen: "\n" in seen)
        with monitor.hidden(), phase("writing to the terminal", 10):
            pass
        monitor.finish(0)
        monitor.finish(0)
    finally:
        sys.stderr.close()
        os.dup2(kept, 2)
        for descriptor in (kept, ours, theirs):
            os.close(descriptor)
    assert said.startswith("working: 0 B of 10 B, 0 %")
    assert "\x1b" not in said


def test_kernels_that_nothing_keeps_are_told_with_v(
    cli: Cli, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketfsck.scan.machine import library

    monkeypatch.setattr(library, "unkept", ["scan_records"])
    assert cli("check", store_dir("5.3.3-basic")).err == ""
    said = cli("check", store_dir("5.3.3-basic"), "-v").err
    assert "no directory can keep the compiled kernels" in said and said.count("\n") == 1
