"""Decoders of message bodies: built in, of other packages, or programs.

    name    := "json" | an entry point of the group `rocketfsck.decoders`
    program := words for a process of its own (`reader.decoderprocess`)

An entry point is a function of a body (bytes, unpacked) and of what is known of the message (topic, tags and
so on, see `FACTS`); its result is a text, or None for a body that is not its own. What it raises is a note
next to the body.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from shutil import which
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.reader.decoderprocess import ANSWER_SIZE, Decoded, ProgramDecoder
from rocketfsck.store.reading import Closing

GROUP = "rocketfsck.decoders"
FACTS = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "tags", "unique_key")
"""What a decoder gets to know about a message."""

Facts = Mapping[str, str | int | None]
Function = Callable[[bytes, Facts], str | None]


class FunctionDecoder(Closing):
    """A decoder in this process. The code is trusted: nothing ends a decoder that hangs."""

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function

    def decode(self, body: bytes, facts: Facts) -> Decoded:
        """What the function says of a body."""
        failed = f"the decoder {self._name} failed"
        try:
            text: Any = self._function(body, facts)
        except Exception as error:  # noqa: BLE001  somebody else's code: its failure is a note, not an end
            return Decoded(None, f"{failed}: {type(error).__name__}: {error}")
        if text is None:
            return Decoded(None, "not decoded: the decoder does not know this body")
        if not isinstance(text, str):
            return Decoded(None, f"{failed}: it gave {type(text).__name__}, no text")
        if len(text) > ANSWER_SIZE:
            return Decoded(
                None, f"the decoder {self._name} failed: its text has more than {ANSWER_SIZE:,} characters"
            )
        return Decoded(text)

    def close(self) -> None:
        """Nothing is open."""


def decode_json(body: bytes, _facts: Facts) -> str | None:
    """JSON in one line with sorted keys; None for a body that is not JSON."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False, sort_keys=True)
    except (ValueError, RecursionError):
        return None


BUILT_IN: Mapping[str, Function] = {"json": decode_json}


def decoder_names() -> tuple[str, ...]:
    """The names that can be given, those of other packages included."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def open_decoder(what: str) -> FunctionDecoder | ProgramDecoder:
    """The decoder of this name, or a program. Raises UsageError if there is none, or it cannot be loaded."""
    if what in BUILT_IN:
        return FunctionDecoder(what, BUILT_IN[what])
    for point in entry_points(group=GROUP, name=what):
        try:
            return FunctionDecoder(what, point.load())
        except Exception as error:
            raise UsageError(
                f"the decoder {what} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
    try:
        words = shlex.split(what)
    except ValueError as error:
        raise UsageError(f"{what!r} is not a command: {error}") from error
    if not words or which(words[0]) is None:
        raise UsageError(f"{what!r} is neither a program nor a decoder: {', '.join(decoder_names())}")
    return ProgramDecoder(words)
