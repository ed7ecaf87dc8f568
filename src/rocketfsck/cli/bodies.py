"""Bodies of messages in an answer: `--body` says in which form, `--body-decoder` who makes a text of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from rocketfsck.cli.output import Column

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


def body_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--body` and `--body-decoder`; the command gets the form as `body`."""

    @wraps(function)
    def run(*args: Any, body: BodyForm, body_decoder: str | None, **given: Any) -> Any:
        from rocketfsck.errors import UsageError

        if body_decoder is not None and body not in ("none", "decoded"):
            raise UsageError("--body-decoder goes with --body decoded")
        if body == "decoded" and body_decoder is None:
            raise UsageError("--body decoded needs --body-decoder")
        if body_decoder is not None:
            from rocketfsck.reader.decoders import open_decoder

            body = "decoded"
            context = click.get_current_context()
            context.meta[_KEY] = context.with_resource(open_decoder(body_decoder))
        return function(*args, body=body, **given)

    form = click.option(
        "--body",
        type=click.Choice(get_args(BodyForm)),
        default="none",
        show_default=True,
        help="Show bodies, and how: as they are stored, or decoded by --body-decoder.",
    )
    decoder = click.option(
        "--body-decoder",
        metavar="NAME|COMMAND",
        help="Who makes a text of bodies: json, a decoder of another package, or a program.",
    )
    decorated: Callable[..., Any] = form(decoder(run))
    return decorated


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
