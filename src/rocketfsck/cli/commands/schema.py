"""`rocketfsck schema [NAME]`: the JSON Schema of a document that a command prints, writes or keeps."""

from __future__ import annotations

from pathlib import Path

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.integers import integers_option, schema_with_texts
from rocketfsck.cli.output import open_output
from rocketfsck.cli.params import output_option
from rocketfsck.cli.settings import common_options, settings_of
from rocketfsck.common.documents import json_text
from rocketfsck.errors import UsageError


def _complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of documents that begin so, for the shell."""
    from rocketfsck.cli.schema.table import DOCUMENTS

    return [name for name in DOCUMENTS if name.startswith(begun)]


@click.command(cls=Command)
@click.argument("name", required=False, shell_complete=_complete)
@output_option
@integers_option
@common_options
def command(name: str | None, output: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the document NAME; without NAME, list the documents.

    With --json-integers strings, the schema is that of documents written so.
    """
    from rocketfsck.cli.schema.table import DOCUMENTS, document_schema
    from rocketfsck.cli.show.table import aligned
    from rocketfsck.cli.show.text import visible

    if name is not None and name not in DOCUMENTS:
        raise UsageError(f"no document is called {visible(name)!r}; `rocketfsck schema` lists all")
    with open_output(output, binary=False) as stream:
        if name is not None:
            schema = document_schema(name)
            texts = settings_of(click.get_current_context()).integer_texts
            stream.write(json_text(schema_with_texts(schema) if texts else schema, indent=2) + "\n")
        else:
            rows = [(name, document.about) for name, document in DOCUMENTS.items()]
            stream.writelines(f"{line}\n" for line in aligned(rows))
