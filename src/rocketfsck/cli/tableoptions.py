"""The options of commands that write tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from rocketfsck.cli.params import Decorator
from rocketfsck.errors import UsageError

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
