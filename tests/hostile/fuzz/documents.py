"""Changes of documents that commands take: plans, journals, reports, rows of messages."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.hostile.fuzz.drawing import draw_value
from tests.hostile.fuzz.mutations import put_in


def change_document(rng: random.Random, content: bytes, folder: Path) -> bytes:
    """A JSON document with one to three values changed, or broken as text.

    Texts are changed into paths of `folder`/victim, which nothing may touch, as well.
    """
    if rng.random() < 0.1:
        return rng.choice((
            b"", content[: rng.randrange(len(content) + 1)], content + content, b"[" * 20_000, b"null",
            b"\xff\xfe",
            content.replace(b"{", b'{"a":1,"a":2,', 1),
        ))  # fmt: skip
    document = json.loads(content)
    victim = folder / "victim"
    paths = (str(victim), str(victim / "precious"), str(victim / "new"), "../victim/precious", "../victim",
    "..",
             str(folder / "store" / ".." / "victim" / "precious"), "/", "", str(folder))  # fmt: skip
    for _ in range(rng.choice((1, 1, 2, 3))):
        place, value, drop = draw_value(rng, document)
        if isinstance(_at(document, place), str) and rng.random() < 0.6:
            value = rng.choice(paths)
        document = put_in(document, place, value, drop=drop)
    return json.dumps(document).encode("ascii")


def _at(document: Any, place: list[Any]) -> Any:
    for step in place:
        document = document[step]
    return document


def change_rows(rng: random.Random, content: bytes) -> bytes:
    """JSON lines of which up to three are changed, doubled, or go."""
    lines = content.splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        if not lines:
            break
        number = rng.randrange(len(lines))
        way = rng.randrange(6)
        if way == 0:
            del lines[number]
        elif way == 1:
            lines.insert(number, lines[number])
        elif way == 2:
            lines[number] = lines[number][: rng.randrange(len(lines[number]) + 1)]
        else:
            try:
                row = json.loads(lines[number])
            except ValueError:
                continue
            place, value, drop = draw_value(rng, row)
            lines[number] = json.dumps(put_in(row, place, value, drop=drop)).encode("ascii")
    return b"\n".join([*lines, b""])
