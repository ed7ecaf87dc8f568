"""Where the answer of a command goes and in which form: the options of all commands that have one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import click

from rocketfsck.cli.integers import integers_param
from rocketfsck.cli.output import BINARY_FORMATS, Format, open_output, to_json
from rocketfsck.cli.paramtypes import FileMode, OutputPath
from rocketfsck.cli.settings import settings_of
from rocketfsck.cli.show.fit import FittedStream, table_columns
from rocketfsck.cli.show.text import Palette
from rocketfsck.common.privacy import set_mode


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the output goes and in which form, as `--format` and `-o` say.

    `path` is None for standard output; `is_dash` is whether that was said (`-o -`).
    """

    form: Format
    path: Path | None
    is_dash: bool = False

    def open(self, forbidden: Sequence[Path] = ()) -> AbstractContextManager[IO[Any]]:
        """The stream to write to, as `open_output` gives it."""
        columns = table_columns() if self.form == "text" and self.path is None else None
        if columns is not None:
            return nullcontext(cast(IO[Any], FittedStream(sys.stdout, columns)))
        return open_output(self.path, binary=self.form in BINARY_FORMATS, forbidden=forbidden)

    def palette(self, stream: IO[Any]) -> Palette:
        """Colours, where the output goes to a terminal that wants them."""
        return Palette(self.path is None and settings_of(click.get_current_context()).colored(stream))

    def say(
        self,
        document: Callable[[], Mapping[str, Any]],
        lines: Callable[[Palette], Iterable[str]],
        forbidden: Sequence[Path] = (),
    ) -> None:
        """Write the document as JSON, or the lines as text; only the one that is wanted is made."""
        with self.open(forbidden) as stream:
            if self.form != "text":
                stream.write(to_json(document(), indent=2 if self.form == "json" else None) + "\n")
            else:
                stream.writelines(f"{line}\n" for line in lines(self.palette(stream)))


def format_params(formats: Sequence[str]) -> list[click.Parameter]:
    """`--format`, and the form of integers in JSON."""
    return [
        click.Option(
            ["output_format", "--format"],
            type=click.Choice(formats),
            default="text",
            help="Form of the standard output.",
        ),
        integers_param(),
    ]


def output_param(what: str = "Write to this file") -> click.Option:
    """`-o`."""
    return click.Option(
        ["-o", "--output"],
        type=OutputPath(),
        help=f"{what}, which appears when it is whole; -: standard output.",
    )


def mode_params(others: Sequence[click.Parameter]) -> list[click.Parameter]:
    """`--mode`, once, of a command that writes; `--file-mode` where `--mode` is something else."""

    def keep(_context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
        if value is not None:
            set_mode(value)

    if any(isinstance(given.type, FileMode) for given in others):
        return []
    option = click.Option(
        ["--file-mode" if any(given.name == "mode" for given in others) else "--mode"],
        type=FileMode(),
        metavar="OCTAL",
        expose_value=False,
        callback=keep,
        help="Permissions of what is written, like 640; default: only who may read the store may read it.",
    )
    return [option]
