"""Bytes next to the names of the fields they are, in the manner of fq: nothing is left out.

    00000000  00 00 00 9a                                     |....            | size = 154
    00000004  da a3 20 a7                                     |.. .            | magicCode = 0xdaa320a7

`tile` completes a list of fields to an exact tiling of a range: what no field covers becomes a field of its
own, named `(unknown)`. Lines that only repeat the one above are folded into one that counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rocketfsck.cli.show.text import count_of

LINE_SIZE = 16
CHUNK_SIZE = 1 << 16
UNKNOWN = "(unknown)"
_ZERO_LINE = bytes(LINE_SIZE)

ReadBytes = Callable[[int, int], bytes]
"""`read(pos, size)` gives exactly `size` bytes of the file from position `pos`."""

ZeroUntil = Callable[[int, int], int]
"""`zero_until(pos, end)` gives the first position from `pos` on that may not be zero, `end` at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """A named range of bytes; `start` and `end` are positions in the file, half-open.

    `text` is the value as printable text, "" for none; `hidden` keeps the bytes themselves out of the view
    (message bodies, unless they are asked for).
    """

    name: str
    start: int
    end: int
    text: str = ""
    hidden: bool = False


def tile(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """`spans` clipped to `start:end`, in order, and the gaps between them as spans named `(unknown)`.

    Of overlapping spans the one that starts first has the bytes. The sizes of the result add up to
    `end - start`, whatever the spans are.
    """
    pos = start
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        first, last = max(span.start, pos), min(span.end, end)
        if last <= first:
            continue
        if first > pos:
            yield Span(UNKNOWN, pos, first)
        yield (
            span
            if (first, last) == (span.start, span.end)
            else Span(span.name, first, last, span.text, span.hidden)
        )
        pos = last
    if pos < end:
        yield Span(UNKNOWN, pos, end)


def hex_lines(
    read: ReadBytes,
    spans: Iterable[Span],
    start: int,
    end: int,
    indent: str = "",
    *,
    zero_until: ZeroUntil = lambda pos, _end: pos,
) -> Iterator[str]:
    """The lines that show the bytes `start:end` of a file with the fields of `spans` next to them.

    With `zero_until` the holes of a sparse file are not read.
    """
    digits = max(8, len(f"{end:x}"))
    for span in tile(spans, start, end):
        label = f"{span.name} = {span.text}" if span.text else span.name
        if span.hidden:
            hidden = f"({count_of(span.end - span.start, 'byte')} not shown)"
            yield f"{indent}{span.start:0{digits}x}  {hidden:<48}|{'':16}| {label}"
            continue
        for pos, line, repeats in _folded(read, zero_until, span.start, span.end):
            if repeats:
                yield f"{indent}{'*':<{digits}}  {f'({repeats:,} more lines like this)':<48}|{'':16}|"
            else:
                yield (
                    f"{indent}{pos:0{digits}x}  {line.hex(' '):<48}|{_characters(line):<16}| {label}"
                ).rstrip()
            label = ""


def _folded(read: ReadBytes, zero_until: ZeroUntil, start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """(position, bytes, 0) for a line to show, (position, b"", n) for n lines equal to the one before."""
    last: bytes | None = None
    repeats = 0
    pos = start
    while pos < end:
        if last == _ZERO_LINE and (line_count := (zero_until(pos, end) - pos) // LINE_SIZE) > 0:
            repeats += line_count
            pos += line_count * LINE_SIZE
            continue
        chunk = read(pos, min(CHUNK_SIZE, end - pos))
        if last is not None and len(chunk) % LINE_SIZE == 0 and chunk == last * (len(chunk) // LINE_SIZE):
            repeats += len(chunk) // LINE_SIZE
            pos += len(chunk)
            continue
        for at in range(0, len(chunk), LINE_SIZE):
            line = chunk[at : at + LINE_SIZE]
            if line == last:
                repeats += 1
                continue
            if repeats:
                yield pos + at, b"", repeats
                repeats = 0
            yield pos + at, line, 0
            last = line
        pos += len(chunk)
    if repeats:
        yield end, b"", repeats


def _characters(line: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
