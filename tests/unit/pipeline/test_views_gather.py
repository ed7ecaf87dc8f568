"""Bytes gathered and properties taken apart by kernels and in plain Python: the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.properties import parse_properties
from rocketfsck.pipeline.views import model
from rocketfsck.scan.columns import PropertyPairs
from rocketfsck.scan.compiled import gather as compiled_gather
from rocketfsck.scan.options import PropertyParser
from rocketfsck.scan.views import arrow
from rocketfsck.scan.views.arrow import Splitter

PIECES = st.text(alphabet="ab\x01\x02é\U0001f600", max_size=12).map(str.encode)


@pytest.mark.parametrize("compiled", [False, True])
def test_ranges_side_by_side(compiled: bool) -> None:
    rng = random.Random(5)
    buffer = np.frombuffer(bytearray(rng.randbytes(5000)), np.uint8)
    for count in (0, 1, 7, 200):
        starts = [rng.randrange(5000) for _ in range(count)]
        sizes = [rng.choice((0, 1, 48, 49, rng.randrange(5001 - start))) for start in starts]
        sizes = [min(size, 5000 - start) for start, size in zip(starts, sizes, strict=True)]
        offsets, data = arrow.gather(
            buffer, np.array(starts, np.int64), np.array(sizes, np.int64), compiled=compiled
        )
        raw = buffer.tobytes()
        expected = [raw[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        assert data.tobytes() == b"".join(expected)
        assert np.diff(offsets).tolist() == sizes
        assert model.binary(offsets, data).to_pylist() == expected


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("starts", "sizes", "said"),
    [
        ([-1], [1], "outside a buffer of 10 bytes"),
        ([9], [2], "outside"),
        ([0], [-1], "outside"),
        ([0, 1], [1], "2 starts, 1 sizes"),
        ([0] * 300, [10] * 300, ""),
    ],
)
def test_ranges_are_checked(compiled: bool, starts: list[int], sizes: list[int], said: str) -> None:
    buffer = np.zeros(10, np.uint8)
    arguments = buffer, np.array(starts, np.int64), np.array(sizes, np.int64)
    if said:
        with pytest.raises(ValueError, match=said):
            arrow.gather(*arguments, compiled=compiled)
    else:
        assert len(arrow.gather(*arguments, compiled=compiled)[1]) == 3000


def test_two_gigabytes_are_too_many() -> None:
    starts, sizes = np.zeros(1 << 12, np.int64), np.full(1 << 12, 1 << 19)
    with pytest.raises(ValueError, match="2,147,483,648 bytes are too many"):
        arrow.offsets_of(np.zeros(1 << 19, np.uint8), starts, sizes)


def _taken_apart(texts: Sequence[bytes], parser: PropertyParser, split: Splitter) -> list[dict[str, str]]:
    bounds = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    found: PropertyPairs = split(data, bounds, parser)
    raw = data.tobytes()
    rows: list[dict[str, str]] = []
    for first, last in zip(found.starts[:-1].tolist(), found.starts[1:].tolist(), strict=True):
        names = [
            raw[start : start + size].decode()
            for start, size in zip(found.name_start[first:last], found.name_size[first:last], strict=True)
        ]
        values = [
            raw[start : start + size].decode()
            for start, size in zip(found.value_start[first:last], found.value_size[first:last], strict=True)
        ]
        assert len(set(names)) == len(names)
        rows.append(dict(zip(names, values, strict=True)))
    return rows


@pytest.mark.parametrize("split", [arrow.split_pairs, compiled_gather.split_pairs])
@given(texts=st.lists(PIECES, max_size=6), parser=st.sampled_from(["split", "scan"]))
def test_properties_as_the_broker_sees_them(
    split: Splitter, texts: list[bytes], parser: PropertyParser
) -> None:
    expected = [parse_properties(text, parser) or {} for text in texts]
    found = _taken_apart(texts, parser, split)
    assert found == expected
    assert [list(one) for one in found] == [list(one) for one in expected]


@pytest.mark.parametrize("split", [arrow.split_pairs, compiled_gather.split_pairs])
def test_as_many_properties_as_fit(split: Splitter) -> None:
    many = b"\x02".join(b"%x\x01%x" % (number % 4000, number) for number in range(4500))[:32_767]
    (found,) = _taken_apart([many], "scan", split)
    assert found == parse_properties(many, "scan")
    assert len(found) > 2000
    long = b"\x02".join(b"%x\x01v" % number for number in range(20_000))
    assert _taken_apart([long, b"a\x01b"], "scan", split) == [parse_properties(long, "scan"), {"a": "b"}]


def test_offsets_of_properties_are_checked() -> None:
    with pytest.raises(ValueError, match="outside a buffer of 3 bytes"):
        compiled_gather.split_pairs(np.zeros(3, np.uint8), np.array([0, 4], np.int32), "scan")


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_texts_as_java_decodes_them(pieces: list[bytes]) -> None:
    bounds = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum([len(piece) for piece in pieces], out=bounds[1:])
    data = np.frombuffer(bytearray(b"".join(pieces)), np.uint8)
    expected = [java_decode(piece) for piece in pieces]
    assert model.texts(bounds, data).to_pylist() == expected
    offsets, readable = model.readable(bounds, data)
    assert model.binary(offsets, readable).cast(pa.string()).to_pylist() == expected


@pytest.mark.parametrize("compiled", [False, True])
def test_equal_texts_have_equal_hashes(compiled: bool) -> None:
    texts = [b"", b"a", b"b", b"a" * 8, b"a" * 9, b"a" * 8 + b"\0", bytes(8), bytes(9), b"a", b"", bytes(3)]
    starts = np.cumsum([0, *map(len, texts)])
    hashes = arrow.hash_texts(b"".join(texts), starts, compiled=compiled).tolist()
    assert len(set(hashes)) == len(set(texts))
    assert [hashes[texts.index(text)] for text in texts] == hashes
    assert arrow.hash_texts(b"", np.zeros(1, np.int64), compiled=compiled).tolist() == []


@pytest.mark.parametrize("starts", [[0, 11], [-1, 3], [0, 5, 2]])
def test_bounds_of_texts_are_checked(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="outside a buffer of 10 bytes"):
        compiled_gather.hash_texts(np.zeros(10, np.uint8), np.array(starts))


@pytest.mark.parametrize("compiled", [False, True])
def test_ranges_beyond_ascii(compiled: bool) -> None:
    data = np.frombuffer(b"abc\x80de\xff", np.uint8)
    starts, sizes = np.array([0, 0, 3, 3, 4, 4, 7]), np.array([3, 4, 0, 1, 2, 3, 0])
    found = arrow.beyond_ascii(data, starts, sizes, compiled=compiled)
    assert found.tolist() == [False, True, False, True, False, True, False]
    with pytest.raises(ValueError, match="outside"):
        arrow.beyond_ascii(data, np.array([5]), np.array([3]), compiled=compiled)
