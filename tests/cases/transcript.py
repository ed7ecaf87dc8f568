"""Transcripts: command lines with what they print, as tests and as documentation.

    # store: 5.3.3-basic          a broker-written store of tests/data/stores becomes ./store …
    # restart: 4.9.8-…--torn-tail … or a damaged one of tests/data/restart
    # group: 5.5.0-ha             the stores of a group of tests/data/groups become ./group/…
    # run: printf 'x' >> store/…  a shell command that prepares it
    $ rocketfsck info store
    what it prints
    (exit status 4)               where it is not 0

In Markdown the same stands in ```console fences, the directives in HTML comments. Everything runs in a
directory that is called /data/rocketmq-1 in the text. `| head -N` behind a command is done here. Written
anew with ROCKETFSCK_TRANSCRIPTS=write.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SHOWN_PLACE = "/data/rocketmq-1"
"""As long as the name of the directory that it stands for, so that lines break at the same words."""

PLACE_LENGTH = len(SHOWN_PLACE)
_DIRECTIVE = re.compile(r"^(?:# |<!-- )(store|restart|group|run): (.*?)(?: -->)?$")
_HEAD = re.compile(r" \| head -(\d+)$")
_VARYING = (
    (re.compile(r"level (\w+), [\d.]+ s"), r"level \1, 0.1 s"),
    (re.compile(r"stores \([\d.]+ s\)"), "stores (0.1 s)"),
    (re.compile(r"存储（[\d.]+ s）"), "存储（0.1 s）"),
    (re.compile(r"级别 (\w+)，[\d.]+ s"), r"级别 \1，0.1 s"),
    (re.compile(r"\.before-\d{8}T\d{6}Z-[0-9a-f]{6}"), ".before-20261121T093000Z-4f2a91"),
)

Answer = Callable[[list[str]], tuple[int, str, str]]


@dataclass
class Block:
    """Lines of a transcript between two others that are copied as they are."""

    lines: list[str] = field(default_factory=list)
    is_console: bool = False


def blocks(text: str, markdown: bool) -> Iterator[Block]:
    """The text in pieces; in Markdown only what is inside ```console fences is a transcript."""
    if not markdown:
        yield Block(text.splitlines(), True)
        return
    block = Block()
    for line in text.splitlines():
        if line == "```console":
            block.lines.append(line)
            yield block
            block = Block(is_console=True)
            continue
        if line == "```" and block.is_console:
            yield block
            block = Block()
        block.lines.append(line)
    yield block


def directives(text: str) -> list[tuple[str, str]]:
    """The (name, value) pairs that prepare the directory."""
    return [(match[1], match[2]) for line in text.splitlines() if (match := _DIRECTIVE.match(line))]


def replay(text: str, answer: Answer, place: Path, *, markdown: bool) -> str:
    """The transcript with the outputs that the commands have now."""
    lines: list[str] = []
    for block in blocks(text, markdown):
        if not block.is_console:
            lines += block.lines
            continue
        for line in block.lines:
            if line.startswith("$ "):
                lines += ["" for _ in lines[-1:] if not markdown and lines[-1].startswith("#")]
                lines.append(line)
                lines += _output(line, answer, place)
            elif line.startswith("#") and not markdown:
                lines.append(line)
    return "\n".join(lines) + "\n"


def _output(line: str, answer: Answer, place: Path) -> list[str]:
    head = _HEAD.search(line)
    command = _HEAD.sub("", line).removeprefix("$ rocketfsck")
    code, out, err = answer(shlex.split(command))
    text = (out + err).replace(str(place), SHOWN_PLACE).replace(place.name, Path(SHOWN_PLACE).name)
    for pattern, shown in _VARYING:
        text = pattern.sub(shown, text)
    found = text.splitlines()
    if head:
        return found[: int(head[1])]
    return [*found, *([f"(exit status {code})"] if code else [])]
