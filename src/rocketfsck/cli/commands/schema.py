"""`rocketfsck schema [NAME]`: the JSON Schema of a document, or the list of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination, open_output, schema_with_texts
from rocketfsck.cli.settings import settings_of
from rocketfsck.cli.show.text import aligned, visible
from rocketfsck.common.documents import json_text
from rocketfsck.common.options import Argument, beginning
from rocketfsck.errors import UsageError


def _beginning(begun: str) -> list[str]:
    """Names of documents that begin so."""
    from rocketfsck.cli.schema.table import DOCUMENTS

    return beginning(DOCUMENTS, begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLine:
    """Whose schema is printed, None for the list of documents, and where."""

    name: Annotated[str | None, Argument(complete=_beginning)] = None
    answer: Annotated[Destination, Formats(integers=True)]


@command_of(SchemaLine)
def schema_command(line: SchemaLine) -> None:
    """Print the JSON Schema (draft 2020-12) of the document NAME; without NAME, list the documents.

    With --json-integers strings, the schema is that of documents written so.
    """
    from rocketfsck.cli.schema.table import DOCUMENTS, document_schema

    name = line.name
    if name is not None and name not in DOCUMENTS:
        raise UsageError(f"no document is called {visible(name)!r}; `rocketfsck schema` lists all")
    with open_output(line.answer.path, binary=False) as stream:
        if name is not None:
            schema = document_schema(name)
            texts = settings_of(click.get_current_context()).integer_texts
            stream.write(json_text(schema_with_texts(schema) if texts else schema, indent=2) + "\n")
        else:
            rows = [(name, document.about) for name, document in DOCUMENTS.items()]
            stream.writelines(f"{line}\n" for line in aligned(rows))
