"""Text in the width of a terminal."""

from __future__ import annotations

import io
import shutil
from functools import partial
from pathlib import Path

import pytest

from rocketfsck.cli.show.text import (
    LineStream,
    aligned,
    aligned_rows,
    fit,
    table_columns,
    text_columns,
    wrapped,
)

from tests.conftest import NIGHTLY, Directory
from tests.unit.cli.conftest import Cli

WIDTHS = (60, 80, 100, 200)
COMMANDS = (
    ("check",),
    ("check", "-v"),
    ("fix", "-n"),
    ("info",),
    ("plan",),
    ("dump", "--topic", "ShopBulk0", "--limit", "3"),
    ("query", "offsets"),
    ("simulate", "--as-broker", "4.9.8"),
    ("count",),
)


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (command, columns)
        for command in COMMANDS
        for columns in WIDTHS
        if NIGHTLY or command == COMMANDS[0] or columns == WIDTHS[0]
    ],
)
def test_no_line_is_longer_than_the_terminal_is_wide(
    cli: Cli, restart_dir: Directory, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], columns: int
) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    monkeypatch.chdir(root.parent)
    monkeypatch.setattr("rocketfsck.cli.show.text.terminal_columns", lambda: columns)
    ended = cli(*command, "store")
    assert ended.out
    long = [line for line in ended.out.splitlines() if len(line) > columns]
    assert [line for line in long if "rocketfsck " not in line and " " in line.strip()] == []


def test_a_line_is_broken_at_blanks_and_indented() -> None:
    assert list(fit("  one two  three four", 11)) == ["  one two", "    three", "    four"]
    assert list(fit("short", 60)) == ["short"]
    assert list(fit("x" * 70, 60)) == ["x" * 70]
    command = "Next: rocketfsck check " + "/a" * 50
    assert list(fit(command, 60)) == [command]


def test_colours_take_no_room() -> None:
    line = "\x1b[1;31maaaa\x1b[0m bbbb"
    assert list(fit(line, 9)) == [line]
    assert len(list(fit(line, 8))) == 2


def test_a_stream_breaks_lines_wherever_they_were_written() -> None:
    under = io.StringIO()
    stream = LineStream(under, partial(fit, columns=10))
    stream.write("aaaa bb")
    stream.writelines(["bb cccc\nd", "dd"])
    stream.flush()
    assert under.getvalue() == "aaaa bbbb\n  cccc\nddd"
    assert not stream.isatty()


def test_a_table_sheds_columns_and_breaks_a_last_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("name", "1", "a text of several words that does not fit into the terminal at all")]
    assert list(aligned(rows)) == ["  ".join(rows[0])]
    monkeypatch.setenv("COLUMNS", "60")
    broken = list(aligned(rows))
    assert len(broken) == 2
    assert broken[0].startswith("name  1  a text of")
    assert broken[1].startswith(" " * 9)
    wide = [("x" * 30, "y" * 20, "z" * 20)]
    assert list(aligned(wide)) == [f"{'x' * 30}  {'y' * 20}", "(1 more column on a wider terminal)"]


def test_lines_of_a_table_know_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = "several words that do not fit into a terminal as narrow as this one is"
    assert [number for number, _ in aligned_rows([("a", text), ("b", "short")])] == [None, 0, 1]
    wide = [("x" * 30, "y" * 20, "z" * 20)] * 2
    assert [number for number, _ in aligned_rows(wide)] == [0, 1, None]


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_repair_is_told_on_every_terminal(
    cli: Cli, restart_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    root = tmp_path / "store"
    shutil.copytree(restart_dir("4.9.8-basic--torn-tail"), root)
    log = next((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[4:8] = bytes(4)  # the magic code of the first record
    log.write_bytes(data)
    monkeypatch.setenv("COLUMNS", str(columns))
    ended = cli("fix", "--yes", "--level", "full", str(root))
    assert ended.code & ~4 == 1, ended.err
    assert "records of changed commit log files" in ended.out
    long = [line for line in ended.out.splitlines() if len(line) > columns]
    assert [line for line in long if "rocketfsck " not in line and " " in line.strip()] == []


@pytest.mark.parametrize(
    ("stated", "text", "table"),
    [("20", 60, 60), ("90", 90, 90), ("500", 200, 200), ("x", 100, None), ("0", 100, None)],
)
def test_the_width_is_what_columns_says(
    monkeypatch: pytest.MonkeyPatch, stated: str, text: int, table: int | None
) -> None:
    monkeypatch.setenv("COLUMNS", stated)
    assert (text_columns(), table_columns()) == (text, table)


def test_words_are_never_broken() -> None:
    assert list(wrapped("a " + "b" * 20 + " c", 10, "  ")) == ["  a", "  " + "b" * 20, "  c"]
