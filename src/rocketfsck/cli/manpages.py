"""Manual pages of all commands, in the roff of man(7), made of what click knows of them; and completions.

    python -m rocketfsck.cli.manpages docs              write docs/man and docs/completion, delete other pages

    rocketfsck.1, rocketfsck-COMMAND.1, rocketfsck-query-KIND.1: NAME, SYNOPSIS, DESCRIPTION, OPTIONS,
    EXAMPLES, EXIT STATUS, ENVIRONMENT, SEE ALSO

The wheel installs pages in `share/man/man1`, and the scripts of `rocketfsck completion` where each shell
looks for them. A page has no date and no width of its own: the same program gives the same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from rocketfsck._version import __version__
from rocketfsck.cli.app import group
from rocketfsck.cli.base import EXIT_STATUS, examples_of
from rocketfsck.cli.commands import COMMANDS

DOCS = Path(__file__).parents[3] / "docs"
FOLDER = DOCS / "man"
"""Where the pages are in the sources."""
SCRIPTS = DOCS / "completion"
"""Where the scripts of completion are in the sources."""
COMPLETIONS: Mapping[str, str] = {"bash": "rocketfsck.bash", "zsh": "_rocketfsck", "fish": "rocketfsck.fish"}
"""The script of each shell that `completion` knows."""
PROGRAM = "rocketfsck"
ENVIRONMENT: Mapping[str, str] = {
    "NO_COLOR": "no colour in the output",
    "ROCKETFSCK_CACHE_DIR": "where compiled code is kept, instead of below ~/.cache",
    "ROCKETFSCK_STATE_DIR": "where plan keeps a plan, instead of below ~/.local/state",
    "ROCKETFSCK_KERNELS": "auto, plain or compiled: whether bulk work runs in compiled code",
    "ROCKETFSCK_PROCESSOR": "x86-64-v2 or x86-64-v3: a lesser kind of processor for compiled code",
}
_BARE = re.compile(r"^([.'])", re.MULTILINE)


def man_pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    pages: dict[str, str] = {}
    root = click.Context(group, info_name=PROGRAM, terminal_width=78, **group.context_settings)
    for context in contexts(root):
        name = context.command_path.replace(" ", "-")
        pages[f"{name}.1"] = _page(context, name)
    return pages


def write_pages(folder: Path) -> None:
    """Write all pages into a directory, and delete those of commands that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = man_pages()
    for path in folder.glob("*.1"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")


def completion_script(shell: str) -> str:
    """What `rocketfsck completion SHELL` prints."""
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(group, {}, PROGRAM, "_ROCKETFSCK_COMPLETE").source()


def write_scripts(folder: Path) -> None:
    """Write the script of each shell into a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for shell, name in COMPLETIONS.items():
        (folder / name).write_text(completion_script(shell) + "\n", "utf-8")


def contexts(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from contexts(click.Context(below, info_name=name, parent=context, terminal_width=78))


def _page(context: click.Context, name: str) -> str:
    command = context.command
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{name.upper()}" "1" "" "{PROGRAM} {__version__}" "User Commands"',
        ".ad l",
        ".SH NAME",
        f"{roff(name)} \\- {roff(summary(context))}",
        ".SH SYNOPSIS",
        f".B {roff(context.command_path)}",
        roff(pieces),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            short = COMMANDS[below] if command is group else found.get_short_help_str(200)
            lines += _item(below, short)
    lines.append(".SH OPTIONS")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            lines += _item(*record)
    if command.epilog:
        lines += [".SH NOTES", *_paragraphs(command.epilog)]
    examples = examples_of(context.command_path)
    if examples:
        lines.append(".SH EXAMPLES")
        for what, line in examples:
            lines += _item(f"{PROGRAM} {line}", what)
    lines.append(".SH EXIT STATUS")
    lines.append("The sum of:")
    for code, meaning in EXIT_STATUS:
        lines += _item(str(code), meaning)
    lines.append(".SH ENVIRONMENT")
    for variable, meaning in ENVIRONMENT.items():
        lines += _item(variable, meaning)
    lines += [".SH SEE ALSO", _see_also(context)]
    return "\n".join(lines) + "\n"


def summary(context: click.Context) -> str:
    """What a command does, in a line."""
    if context.parent is not None and context.parent.command is group:
        return COMMANDS[str(context.info_name)]
    return context.command.get_short_help_str(200)


def _item(term: str, text: str) -> list[str]:
    return [".TP", f"\\fB{roff(term)}\\fR", roff(" ".join(text.split()))]


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of click's help; one that begins with `\\b` keeps its lines."""
    for number, part in enumerate(re.split(r"\n\s*\n", text.replace("\f", "").strip())):
        if number:
            yield ".PP"
        if part.lstrip().startswith("\b"):
            yield ".nf"
            yield from (roff(line) for line in part.replace("\b", "").strip("\n").splitlines())
            yield ".fi"
        else:
            yield roff(" ".join(part.split()))


def _see_also(context: click.Context) -> str:
    names = [PROGRAM] if context.parent is not None else [f"{PROGRAM}-{name}" for name in COMMANDS]
    return ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in names)


def roff(text: str) -> str:
    """Text as man(7) shows it: backslashes, hyphens of options, long choices, dots that open a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("|", "|\\:")
    return _BARE.sub(r"\\&\1", escaped)


if __name__ == "__main__":
    docs = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    write_pages(docs / FOLDER.name)
    write_scripts(docs / SCRIPTS.name)
