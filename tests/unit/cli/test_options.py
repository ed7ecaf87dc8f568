"""An option has one meaning, type and help over all commands; what differs is named here, with why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click
import pytest

from rocketfsck.cli.app import group
from rocketfsck.cli.paramtypes import StorePath

EXCEPTIONS = {
    "--format": "not every result has every form",
    "--max-memory": "each command has a default of its own",
    "--verbose": "each command says what more it shows",
    "--output": "what `plan` writes to the file is the plan, whatever --format is",
    "--mode": "what `export` does with damage, as Spark calls it; permissions are `--file-mode` there",
    "--queue": "`rebuild` takes several",
    "--topic": "`rebuild` and `write` take several",
    "--yes": "`fix` asks a question; other commands that write only pause",
    "--report": "`check` writes the page of a report; `plan` and `browse` read the report itself",
    "--stores-from": "each command says what it does with the stores",
    "--in-place": "`damage` breaks the store itself, and has no way back",
    "--store": "`page` and `explain` say what they do with it",
}


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option of every command, with the command's name."""

    def walk(command: click.Command, name: str, context: click.Context) -> Iterator[tuple[str, click.Option]]:
        yield from ((name, item) for item in command.params if isinstance(item, click.Option))
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                yield from walk(found, f"{name} {child}".strip(), click.Context(found, parent=context))

    return walk(group, "", click.Context(group))


def long_name(option: click.Option) -> str:
    return max(option.opts, key=len)


def shape(option: click.Option) -> tuple[object, ...]:
    """What an option looks like to a user."""
    kind = option.type
    words = tuple(kind.choices) if isinstance(kind, click.Choice) else (type(kind).__name__, kind.name)
    names = tuple(sorted((*option.opts, *option.secondary_opts)))
    return names, words, option.metavar, option.is_flag, option.multiple, option.help


def differing() -> dict[str, dict[tuple[object, ...], list[str]]]:
    found: dict[str, dict[tuple[object, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, option in options():
        found[long_name(option)][shape(option)].append(command)
    return {name: dict(shapes) for name, shapes in found.items() if len(shapes) > 1}


def test_one_name_has_one_meaning() -> None:
    unexpected = {name: shapes for name, shapes in differing().items() if name not in EXCEPTIONS}
    assert not unexpected


def test_exceptions_are_needed() -> None:
    assert set(EXCEPTIONS) == set(differing())
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    "alias",
    [
        "--max",
        "--simulate",
        "--time-from",
        "--time-to",
        "--conf",
        "--json",
        "--scratch",
        "--broker",
        "--version-of",
    ],
)
def test_names_that_went(alias: str) -> None:
    assert alias not in {name for _, option in options() for name in option.opts}


def test_every_option_is_explained() -> None:
    silent = [(command, option.opts) for command, option in options() if not option.help]
    assert not silent


ANY_FILE = {"check", "dump", "info", "salvage"}
"""Commands that take any file, or (`check`) patterns of stores; all others take a store."""


def places() -> Iterator[tuple[str, str]]:
    """The argument of every command that names a file, directory or store, as the help shows it."""

    def walk(command: click.Command, name: str, context: click.Context) -> Iterator[tuple[str, str]]:
        for item in command.params:
            if isinstance(item, click.Argument) and isinstance(item.type, StorePath):
                yield name, item.make_metavar(context).strip("[].…")
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                yield from walk(found, f"{name} {child}".strip(), click.Context(found, parent=context))

    return walk(group, "", click.Context(group))


def test_a_store_is_called_store() -> None:
    found = {name: word for name, word in places() if name not in ("compare", "learn", "page")}
    assert found == {name: "PATH" if name in ANY_FILE else "STORE" for name in found}
    assert found.keys() > ANY_FILE
    assert [word for name, word in places() if name == "compare"] == ["A", "B", "STORE"]
    assert [word for name, word in places() if name == "learn"] == ["DIR"], "a directory of stores"
    assert [word for name, word in places() if name == "page"][:1] == ["REPORT"]
