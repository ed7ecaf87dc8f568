"""Bodies of messages in an answer: `--body` says in which form, `--body-decoder` who makes a text of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from rocketfsck.cli.output import Column
from rocketfsck.common.options import Option
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.reader.decoders import FunctionDecoder, ProgramDecoder
    from rocketfsck.scan.views.messages import Message

BodyForm = Literal["none", "text", "hex", "base64", "decoded"]

COLUMNS: dict[BodyForm, tuple[Column, ...]] = {
    "none": (),
    "text": (Column("body", "name"),),
    "hex": (Column("body_hex", "text"),),
    "base64": (Column("body", "blob"),),
    "decoded": (Column("body_decoded", "text"), Column("body_note", "text"), Column("body", "blob")),
}
"""The machine columns of a form. Of `decoded`, `body` is there only where there is no text, with a note."""
NAMES = frozenset(column.name for columns in COLUMNS.values() for column in columns)
_KEY = "rocketfsck.body_decoder"


@dataclass(frozen=True, slots=True)
class Bodies:
    """How bodies are shown."""

    body: Annotated[
        BodyForm,
        Option("Show bodies, and how: as they are stored, or decoded by --body-decoder.", shows_default=True),
    ] = "none"
    body_decoder: Annotated[
        str | None,
        Option(
            "Who makes a text of bodies: json, a decoder of another package, or a program.",
            metavar="NAME|COMMAND",
        ),
    ] = None

    def form(self) -> BodyForm:
        """The form; a decoder is opened until the command ends. Raises UsageError."""
        if self.body_decoder is None:
            if self.body == "decoded":
                raise UsageError("--body decoded needs --body-decoder")
            return self.body
        if self.body not in ("none", "decoded"):
            raise UsageError("--body-decoder goes with --body decoded")
        from rocketfsck.reader.decoders import open_decoder

        context = click.get_current_context()
        context.meta[_KEY] = context.with_resource(open_decoder(self.body_decoder))
        return "decoded"


def body_values(message: Message, form: BodyForm) -> dict[str, Any]:
    """The body of a message as values of the columns of a form."""
    body = message.body
    if form == "none":
        return {}
    if form == "hex":
        return {"body_hex": None if body is None else body.hex()}
    if form == "decoded":
        return _decoded(message)
    return {"body": body}


def _decoded(message: Message) -> dict[str, Any]:
    from rocketfsck.query.content.unpacking import unpack
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    decoder: FunctionDecoder | ProgramDecoder = click.get_current_context().meta[_KEY]
    if message.body is None:
        return {"body_decoded": None, "body_note": "the body is missing or too long", "body": None}
    content = unpack(message.body, message.sys_flag, MAX_BODY_SIZE)
    if content.unknown is not None:
        return {
            "body_decoded": None,
            "body_note": f"cannot be decompressed: {content.unknown}",
            "body": message.body,
        }
    found = decoder.decode(
        content.data,
        {
            "topic": message.topic_bytes.decode("utf-8", "backslashreplace"),
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "physical_offset": message.physical_offset,
            "store_timestamp": message.store_timestamp,
            "tags": message.tags,
            "unique_key": message.unique_key,
        },
    )
    raw = message.body if found.text is None else None
    return {"body_decoded": found.text, "body_note": found.note, "body": raw}
