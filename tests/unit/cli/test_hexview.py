"""Every byte is shown once, whatever the fields are said to be."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.cli.dump.item import HEX_CHUNK_SIZE, UNKNOWN, Span, hex_lines, tile

SPANS = st.lists(
    st.builds(
        lambda name, start, size: Span(name, start, start + size),
        st.sampled_from("abc"),
        st.integers(0, 120),
        st.integers(0, 60),
    )
)


@given(SPANS, st.integers(0, 50), st.integers(0, 100))
def test_tiles_the_range_exactly(spans: list[Span], start: int, size: int) -> None:
    tiles = list(tile(spans, start, start + size))
    pos = start
    for span in tiles:
        assert span.start == pos
        assert span.end > span.start
        pos = span.end
    assert pos == start + size


def _shown_count(lines: list[str]) -> int:
    """Bytes that the lines account for, repeated ones by their count."""
    total = last = 0
    for line in lines:
        folded = re.search(r"\(([\d,]+) more lines like this\)", line)
        hidden = re.search(r"\(([\d,]+) bytes? not shown\)", line)
        if folded:
            total += int(folded[1].replace(",", "")) * last
        elif hidden:
            total += int(hidden[1].replace(",", ""))
        else:
            last = len(bytes.fromhex(line.split("|")[0].split("  ", 1)[1]))
            total += last
    return total


@given(st.binary(max_size=400) | st.builds(lambda n: b"\0" * n, st.integers(0, 300_000)), SPANS)
def test_accounts_for_every_byte(data: bytes, spans: list[Span]) -> None:
    lines = list(hex_lines(lambda pos, size: data[pos : pos + size], spans, 0, len(data)))
    assert _shown_count(lines) == len(data)
    assert all(line.isprintable() for line in lines)


@given(st.lists(st.integers(0, 400_000), max_size=4))
def test_holes_are_not_read(places: list[int]) -> None:
    data = bytearray(400_064)
    for place in places:
        data[place] = 7
    read_size = 0

    def read(pos: int, size: int) -> bytes:
        nonlocal read_size
        read_size += size
        return bytes(data[pos : pos + size])

    def zero_until(pos: int, end: int) -> int:
        rest = bytes(data[pos:end])
        return pos + len(rest) - len(rest.lstrip(b"\0"))

    lines = list(hex_lines(read, [], 0, len(data), zero_until=zero_until))
    assert lines == list(hex_lines(read, [], 0, len(data)))
    assert read_size <= len(data) + (len(places) + 1) * HEX_CHUNK_SIZE


def test_repeated_lines_fold_across_reads() -> None:
    data = b"\xaa" * 16 + b"\0" * 200_000 + b"end"
    lines = list(hex_lines(lambda pos, size: data[pos : pos + size], [], 0, len(data)))
    assert len(lines) == 4
    assert "(12,499 more lines like this)" in lines[2]
    assert lines[3].startswith("00030d50  65 6e 64")


def test_gap_is_named_unknown() -> None:
    assert [span.name for span in tile([Span("a", 4, 8)], 0, 10)] == [UNKNOWN, "a", UNKNOWN]


def test_hidden_bytes_stay_hidden() -> None:
    (line,) = hex_lines(lambda _pos, _size: b"secret", [Span("body", 0, 6, "", True)], 0, 6)
    assert "73 65 63" not in line
    assert "(6 bytes not shown)" in line
