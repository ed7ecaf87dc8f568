"""What a command takes, declared at the fields of a dataclass; `cli.adapter` makes a command line of it.

    level: Annotated[Level, Option("How thorough a check is.", shows_default=True)] = "full"

The type of a field says what a value is: `bool` a flag, `Literal` a choice, `tuple[X, ...]` several values.
The default of a field is the option's; without one, the option must be given. A field that holds a dataclass
stands for the options of that one, and a field without a declaration is for programs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Quantity = Literal["size", "duration", "time", "range"]
"""Numbers with a notation: `64KiB`, `7d`, a date and time, `FROM:TO`."""

Completion = Callable[[str], list[str]]
"""The values that begin with a text, for a shell to offer."""


def beginning(names: Iterable[str], begun: str) -> list[str]:
    """The names that begin so, in capitals or small letters."""
    return [name for name in names if name.lower().startswith(begun.lower())]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathKind:
    """What a path is for. `store`: a store, a part of one, or its URL; `read` and `write`: a file, `-` is a
    standard stream; `file`: what is opened as it is.

    `local` says in words why a URL will not do, `written` that the path is the place of what is made, `stdin`
    that `-` is standard input; `exists`: what is not there is an error at once.
    """

    use: Literal["store", "read", "write", "file"] = "store"
    local: str | None = None
    written: bool = False
    stdin: bool = False
    exists: bool = False
    file_okay: bool = True
    dir_okay: bool = True


STORE = PathKind()
READ_FILE = PathKind(use="read", dir_okay=False)
WRITE_FILE = PathKind(use="write")
PLAIN_FILE = PathKind(use="file", dir_okay=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A value by its place. `instead` is the option that may be given in its place."""

    metavar: str | None = None
    kind: PathKind | Quantity | None = None
    complete: Completion | None = None
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A value by its name: `names`, or the field's.

    `least` is the least number, `choices` are texts to choose from, `any_case` in small letters, too. With
    `splits` a value may hold several, between commas or spaces; `parse` makes the value of a text, and raises
    ValueError for one of another form. `typed_default` is the default as a user types it, `alone` the value
    of an option without one. `shows_default` is True, or what the help says in place of the default.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    kind: PathKind | Quantity | None = None
    least: int | None = None
    complete: Completion | None = None
    choices: tuple[str, ...] = ()
    splits: bool = False
    parse: Callable[[str], Any] | None = None
    typed_default: str | None = None
    alone: str | None = None
    shows_default: bool | str = False
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class PutAfter:
    """The place of an option on the command line: after that of this field, with the fields that follow."""

    field: str
