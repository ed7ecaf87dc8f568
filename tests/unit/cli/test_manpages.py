"""Manual pages: fresh, complete, and without a complaint of groff's."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rocketfsck.cli.app import group
from rocketfsck.cli.base import EXIT_STATUS
from rocketfsck.cli.commands import COMMANDS
from rocketfsck.cli.manpages import COMPLETIONS, FOLDER, SCRIPTS, man_pages, roff, write_pages, write_scripts

PAGES = man_pages()


def test_the_pages_in_the_sources_are_fresh() -> None:
    there = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.1")}
    assert sorted(there) == sorted(PAGES)
    stale = [name for name in PAGES if there[name] != PAGES[name]]
    assert stale == [], "run make specs"


def test_every_command_has_a_page_with_all_its_options() -> None:
    context = click.Context(group, info_name="rocketfsck")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        page = PAGES[f"rocketfsck-{name}.1"]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(roff(option) in page for option in parameter.opts), (name, parameter.opts)
        for code, meaning in EXIT_STATUS:
            assert f"\\fB{code}\\fR\n{roff(meaning)}" in page
    assert "rocketfsck-query-key.1" in PAGES


def test_roff() -> None:
    assert roff("--a\\b") == "\\-\\-a\\eb"
    assert roff(".start\n'next") == "\\&.start\n\\&'next"


def test_pages_of_commands_that_are_gone_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "rocketfsck-gone.1").write_text("old")
    write_pages(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PAGES)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaint(tmp_path: Path) -> None:
    write_pages(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        done = subprocess.run(
            ["groff", "-K", "utf8", "-T", "utf8", "-man", "-ww", "-z", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", path.name


def test_the_scripts_in_the_sources_are_what_the_command_prints(tmp_path: Path) -> None:
    write_scripts(tmp_path)
    for shell, name in COMPLETIONS.items():
        printed = CliRunner().invoke(group, ["completion", shell]).output
        assert (SCRIPTS / name).read_text("utf-8") == (tmp_path / name).read_text("utf-8") == printed, shell


def test_the_wheel_installs_them() -> None:
    root = FOLDER.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared.pop("docs/man") == "share/man/man1"
    assert {*shared} == {f"docs/completion/{name}" for name in COMPLETIONS.values()}
