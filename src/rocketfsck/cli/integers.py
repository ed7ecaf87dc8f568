"""`--json-integers strings`: every integer of the JSON as text, for readers whose numbers are doubles.

JavaScript and what is written in it round an integer above 2^53, and physical offsets, hashes and tagsCodes
get there. All integers change their form, so that the type of a member never depends on its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rocketfsck.cli.settings import settings_of

PATTERN = "^-?[0-9]+$"
"""What the schema says of an integer as text."""


def integers_param() -> click.Option:
    """`--json-integers`, for a command that writes JSON."""

    def keep(context: click.Context, _parameter: click.Parameter, value: str) -> None:
        settings_of(context).integer_texts = value == "strings"

    return click.Option(
        ["--json-integers"],
        type=click.Choice(["numbers", "strings"]),
        default="numbers",
        expose_value=False,
        callback=keep,
        help="Write the integers of JSON as numbers, or as strings for readers that round.",
    )


def as_asked(document: Any) -> Any:
    """The document with its integers as the command line of this run asks for them."""
    context = click.get_current_context(silent=True)
    return with_texts(document) if context is not None and settings_of(context).integer_texts else document


def with_texts(value: Any) -> Any:
    """JSON values with every integer as text in decimal; what is true or false stays so."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Mapping):
        return {name: with_texts(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_texts(inner) for inner in value]
    return value


def schema_with_texts(schema: Any) -> Any:
    """A JSON Schema for documents whose integers are text."""
    if isinstance(schema, list):
        return [schema_with_texts(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: schema_with_texts(inner) for name, inner in schema.items()}
    if schema.get("type") == "integer":
        kept = {name: inner for name, inner in changed.items() if name not in ("minimum", "maximum")}
        return {**kept, "type": "string", "pattern": PATTERN}
    for name in ("const", "enum"):
        if name in schema:
            changed[name] = with_texts(schema[name])
    return changed
