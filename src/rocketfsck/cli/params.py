"""The options that say which store is meant and where the answer goes; `cli.options` has the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from rocketfsck.cli.integers import integers_option
from rocketfsck.cli.output import BINARY_FORMATS, FORMATS, Format, open_output, to_json
from rocketfsck.cli.paramtypes import FileMode, OutputPath, StorePath
from rocketfsck.cli.settings import settings_of
from rocketfsck.cli.show.fit import FittedStream, table_columns
from rocketfsck.cli.show.text import Palette
from rocketfsck.cli.storepath import open_named_store
from rocketfsck.common.outputs import STDOUT
from rocketfsck.common.privacy import set_mode
from rocketfsck.errors import RocketfsckError, UsageError

if TYPE_CHECKING:
    from rocketfsck.pipeline.sources import StoreSource
    from rocketfsck.store import Store

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
Decorated = TypeVar("Decorated", bound=Function)


def path_argument(
    name: str, local: str | None = None, metavar: str = "STORE"
) -> Callable[[Decorated], Decorated]:
    """An existing store, or the URL of one where `local` (see `StorePath`) is not given; with the metavar
    PATH, any file or directory."""
    return click.argument(name, metavar=metavar, type=StorePath(local))


def storage_option(function: Decorated) -> Decorated:
    """`--storage-option`, for all URLs of a command line."""

    def keep(ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> None:
        if values:
            from rocketfsck.store.places.urls import read_options, set_default_options

            set_default_options(read_options(values))
            ctx.call_on_close(lambda: set_default_options({}))

    return click.option(
        "--storage-option",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=keep,
        help="For URLs: an option for fsspec's file system, like endpoint_url=http://host:9000.",
    )(function)


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


def format_option(*formats: str) -> Decorator:
    """`--format`, and the form of integers in JSON."""
    choice = click.Choice(formats or FORMATS)

    def add(function: Function) -> Function:
        option = click.option(
            "--format", "output_format", type=choice, default="text", help="Form of the standard output."
        )
        return option(integers_option(function))

    return add


def mode_option(function: Decorated) -> Decorated:
    """`--mode`, once, of a command that writes; `--file-mode` where `--mode` is something else."""

    def keep(_context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
        if value is not None:
            set_mode(value)

    others: list[click.Parameter] = getattr(function, "__click_params__", [])
    if any(isinstance(given.type, FileMode) for given in others):
        return function
    return click.option(
        "--file-mode" if any(given.name == "mode" for given in others) else "--mode",
        type=FileMode(),
        metavar="OCTAL",
        expose_value=False,
        callback=keep,
        help="Permissions of what is written, like 640; default: only who may read the store may read it.",
    )(function)


def output_option(function: Decorated, what: str = "Write to this file") -> Decorated:
    """`-o`, and `--mode`."""
    option = click.option(
        "-o",
        "--output",
        type=OutputPath(),
        help=f"{what}, which appears when it is whole; -: standard output.",
    )
    return mode_option(option(function))


def output_options(*formats: str) -> Decorator:
    """`--format` and `-o`; the command gets both as `answer`."""

    def add(function: Function) -> Function:
        @wraps(function)
        def run(*args: Any, output_format: Format, output: Path | None, **given: Any) -> Any:
            is_dash = output == STDOUT
            answer = Destination(output_format, None if is_dash else output, is_dash)
            return function(*args, answer=answer, **given)

        return format_option(*formats)(output_option(run))

    return add


def verbose_option(text: str) -> Decorator:
    """`-v`, with what it adds."""
    return click.option("-v", "--verbose", is_flag=True, help=text)


outside_option: Decorator = click.option(
    "--outside",
    metavar="DIR",
    multiple=True,
    type=StorePath("what is written", file_okay=False),
    help="A directory outside of the store in which files may be changed, too: a commit log path of the "
    "plan, or where a symbolic link in the store leads; may be given several times.",
)
commitlog_path_option: Decorator = click.option(
    "--commitlog-path",
    "commitlog_paths",
    multiple=True,
    type=StorePath(),
    help="A commit log directory of another name or place; may be given several times.",
)
broker_conf_option: Decorator = click.option(
    "--broker-conf",
    type=StorePath(dir_okay=False),
    metavar="FILE",
    help="The broker's settings: file sizes, commit log paths, delay levels.",
)


def broker_version_option(default: str | None = None) -> Decorator:
    """`--broker-version`: whose store it is. `--as-broker` is the broker that is predicted."""
    return click.option(
        "--broker-version",
        metavar="VERSION",
        default=default,
        show_default=default or "inferred",
        help="Version of the broker that wrote the store, like 4.9.8.",
    )


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the user knows about a store and its bytes cannot tell."""

    broker_conf: Path | None
    broker_version: str | None
    commitlog_paths: tuple[Path, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The same as arguments of `open_store`."""
        return {
            "broker_conf": self.broker_conf,
            "version": self.broker_version,
            "commitlog_paths": self.commitlog_paths,
        }

    def open(self, command: str, path: Path, **more: Any) -> Store:
        """The store at `path`, for a command of this name, as `open_named_store` opens it."""
        return open_named_store(command, path, **self.facts | more)

    def sources_or_errors(
        self, paths: Sequence[Path | str], brokers: Sequence[str]
    ) -> tuple[tuple[StoreSource, ...], list[tuple[str, str]]]:
        """The stores at `paths`, and the paths at which there is none, with the reason.

        Raises UsageError where none is left, and as `find_sources` does for names.
        """
        from rocketfsck.pipeline.sources import find_sources

        good, failed = [], []
        for path in paths:
            try:
                find_sources([path])
            except RocketfsckError as error:
                failed.append((str(path), str(error).removeprefix(f"{path}: ")))
            else:
                good.append(path)
        if not good:
            raise UsageError("; ".join(f"{path}: {error}" for path, error in failed))
        return self.sources(good, brokers), failed

    def sources(self, paths: Sequence[Path | str], brokers: Sequence[str]) -> tuple[StoreSource, ...]:
        """The stores at `paths`, as `find_sources` finds them."""
        from rocketfsck.pipeline.sources import find_sources

        return find_sources(
            paths,
            brokers=brokers,
            version=self.broker_version,
            broker_confs=() if self.broker_conf is None else (self.broker_conf,),
            commitlog_paths=self.commitlog_paths,
        )


def store_options(function: Function) -> Function:
    """What the user knows about the store, which the command gets as `stated`."""

    @wraps(function)
    def run(
        *args: Any,
        broker_conf: Path | None,
        broker_version: str | None,
        commitlog_paths: tuple[Path, ...],
        **given: Any,
    ) -> Any:
        return function(*args, stated=StoreOptions(broker_conf, broker_version, commitlog_paths), **given)

    return broker_conf_option(broker_version_option()(commitlog_path_option(storage_option(run))))


# The options of commands that write tables.

table_format_option: Decorator = click.option(
    "--table-format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="parquet: files. delta, iceberg: the same files as a table; needs the extra 'tables'.",
)
catalog_option: Decorator = click.option(
    "--catalog",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Iceberg's catalog, like uri=…; default: an SQLite file in the directory.",
)


def properties_of(texts: Sequence[str]) -> dict[str, str]:
    """What `--catalog` says. Raises UsageError for what is not NAME=VALUE."""
    return dict(_pair(text) for text in texts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a property of a catalog is NAME=VALUE, not {text!r}")
    return name, value
