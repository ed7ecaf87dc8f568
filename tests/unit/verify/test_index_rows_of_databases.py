"""Rows of an index that are taken as they are: only those that the decoder takes as entries, too."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import FormatError
from rocketfsck.formats.rocks import TYPE_KEY, TYPE_TAG, TYPE_UNIQUE, IndexKey, encode_i64, encode_index_key
from rocketfsck.store.rocks.families import Content, OddRows, decode_row
from rocketfsck.store.rocks.reading import Rows
from rocketfsck.verify.databases.messages import Index, plain_rows

TEXTS = st.binary(max_size=4) | st.sampled_from([b"@", b"a@b", b"K@", b"@U@"])
KEYS = st.builds(
    lambda kind, topic, text, unique, offset: encode_index_key(
        IndexKey(7, topic, kind, text, unique, offset)
    ),
    st.sampled_from([TYPE_KEY, TYPE_TAG, TYPE_UNIQUE, b"X", b"", b"KK"]),
    TEXTS,
    TEXTS,
    TEXTS,
    st.integers(0, 1 << 40),
)
VALUES = st.just(encode_i64(5)) | st.binary(max_size=9)


def rows_of(pairs: list[tuple[bytes, bytes]]) -> Rows:
    texts = [key for key, _ in pairs], [value for _, value in pairs]
    (keys, key_starts), (values, value_starts) = (
        (b"".join(side), np.cumsum([0, *map(len, side)])) for side in texts
    )
    return Rows("default", keys, key_starts, values, value_starts)


@given(st.lists(st.tuples(KEYS | st.binary(max_size=30), VALUES), max_size=8))
def test_what_is_plain_decodes_as_an_entry(pairs: list[tuple[bytes, bytes]]) -> None:
    rows = rows_of(pairs)
    odd, index = OddRows(), Index(compiled=False)
    index.take(rows, odd)
    entries = []
    for (key, value), plain in zip(pairs, plain_rows(rows).tolist(), strict=True):
        try:
            kind, values = decode_row(Content.INDEX, key, value)
        except FormatError:
            assert not plain
            continue
        entries.append(values["phyOffset"])
        assert kind == "entry"
    index.finish()
    assert len(index.hashes) == len(entries)
    assert sum(odd.counts.values()) == len(pairs) - len(entries)
    assert sorted(index.unexplained(rows).tolist()) == sorted(entries)
    assert (index.first_offset, index.last_offset) == (
        min(entries, default=1 << 62),
        max(entries, default=-1),
    )


def test_usual_rows_are_plain() -> None:
    keys = [
        encode_index_key(IndexKey(7, b"Topic", kind, text, b"unique", 9))
        for kind, text in ((TYPE_KEY, b"a"), (TYPE_TAG, b"tag@x"), (TYPE_UNIQUE, b""))
    ]
    assert plain_rows(rows_of([(key, encode_i64(5)) for key in keys])).all()
