"""What is searched for, as it is asked: small, for the screen that asks comes before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

SearchKind = Literal["text", "key", "unique", "offset", "time"]
KINDS: tuple[SearchKind, ...] = get_args(SearchKind)
HINTS: dict[SearchKind, str] = {
    "text": "text in UTF-8, or 0x and hex digits",
    "key": "a word of KEYS or a UNIQ_KEY",
    "unique": "a UNIQ_KEY",
    "offset": "4711 or 0x1267 · @BYTE of this file · TOPIC/QUEUE/QUEUE-OFFSET",
    "time": "2024-05-17T08:30:00 (UTC) or milliseconds",
}
NAMES: dict[SearchKind, str] = {
    "text": "text",
    "key": "key",
    "unique": "unique key",
    "offset": "offset",
    "time": "time",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for. `topic` is for keys: "" asks every topic."""

    kind: SearchKind
    text: str
    topic: str = ""
