"""Help of commands that write in three sections; a pause on a terminal before what is dangerous."""

from __future__ import annotations

import re
import signal
import sys
from io import StringIO
from pathlib import Path

import click
import pytest

from rocketfsck.cli import adapter
from rocketfsck.cli.adapter import SECTIONS, WritingCommand
from rocketfsck.cli.commands import load_command

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

WRITERS = ("fix", "apply", "undo", "rebuild", "damage", "compare", "salvage")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", WRITERS)
def test_every_option_is_in_one_section(cli: Cli, name: str) -> None:
    command = load_command(name)
    assert isinstance(command, WritingCommand)
    names = {parameter.name for parameter in command.params}
    assert {*command.advisory, *command.dangers} <= names
    assert not {*command.advisory} & {*command.dangers}
    text = cli(name, "--help-all").out
    starts = [text.index(f"{title}:\n") for title in SECTIONS if f"{title}:\n" in text]
    assert starts == sorted(starts)
    ends = [*starts[1:], text.index("Exit status, the sum of:")]
    sections = dict(
        zip(
            [text[at:].partition(":")[0] for at in starts],
            map(text.__getitem__, map(slice, starts, ends)),
            strict=True,
        )
    )
    for parameter in command.params:
        if not isinstance(parameter, click.Option):
            assert f"\n  {parameter.make_metavar(click.Context(command))}\n" not in text
            continue
        place = 2 if parameter.name in command.dangers else parameter.name in command.advisory
        flag = max(parameter.opts, key=len)
        found = [
            title for title, lines in sections.items() if re.search(rf"^  (-\w, )?{flag}\b(?!-)", lines, re.M)
        ]
        assert found == [SECTIONS[place]], flag


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    return slept


@pytest.mark.parametrize(
    ("terminal", "options", "paused"), [(True, [], 10), (True, ["--yes"], 0), (False, [], 0)]
)
def test_a_pause_on_a_terminal(
    cli: Cli,
    store_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: list[float],
    terminal: bool,
    options: list[str],
    paused: int,
) -> None:
    import shutil

    store = tmp_path / "store"
    shutil.copytree(store_dir("4.9.8-basic"), store)
    if terminal:
        monkeypatch.setattr(sys, "stdin", Terminal())
    ended = cli("damage", store, "--in-place", "--fault", "torn-tail", *options)
    assert ended.code == 0
    assert len(seconds) == paused
    assert ("WARNING: the store itself is damaged, not a copy: there is no way back" in ended.err) is bool(
        paused
    )


def test_the_pause_can_be_interrupted(
    cli: Cli, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())

    def interrupt(_: float) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("time.sleep", interrupt)
    store = store_dir("4.9.8-basic")
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    ended = cli("damage", store, "--in-place", "--fault", "torn-tail")
    assert (ended.code, ended.err.splitlines()[-1]) == (32, "Cancelled.")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["fix", "--preen", "--no-undo"], "cannot be taken back"),
        (["undo", "--force"], "what was written since the repair"),
        (["apply", "--no-undo"], "cannot be taken back"),
    ],
)
def test_who_pauses(
    cli: Cli,
    store_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    warning: str,
) -> None:
    class PausedError(BaseException):
        pass

    def stop(_: float) -> None:
        raise PausedError

    root = tmp_path / "store"
    assert cli("damage", store_dir("4.9.8-multiseg"), "--into", root, "--fault", "torn-tail").code == 0
    assert cli("plan", root).code == 4
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("time.sleep", stop)
    monkeypatch.setattr(adapter, "PAUSE_SECONDS", 1)
    with pytest.raises(PausedError):
        cli(*words, root)
    assert warning in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["store"]
