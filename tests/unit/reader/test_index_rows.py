"""Index rows of a database, put together from columns: those that each message alone has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.common.budget import within
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.formats.properties import KEYS, TAGS, UNIQ_KEY, split_keys
from rocketfsck.formats.record import Host, Record, encode_record, make_record
from rocketfsck.formats.rocks import HOUR_MS, TYPE_KEY, TYPE_TAG, TYPE_UNIQUE, IndexKey, encode_index_key
from rocketfsck.reader import indexrows
from rocketfsck.reader.indexrows import log_batches
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store

from tests.conftest import REAL_NAMES, STORE_NAMES, Directory

Row = tuple[bytes, int, int]

HOST = Host(bytes([10, 0, 0, 1]), 10911)
NOW = 1_700_000_000_000


def rows_of_message(message: Message, offset: int) -> list[Row]:
    """The rows of one message, as IndexRocksDBStore#buildIndex puts them."""
    properties = message.properties or {}
    unique_key = properties.get(UNIQ_KEY, "")
    if not unique_key or not message.topic or message.store_timestamp <= 0:
        return []
    if message.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    texts = [(TYPE_UNIQUE, "")]
    texts += [(TYPE_KEY, key) for key in dict.fromkeys(split_keys(properties.get(KEYS, "")))]
    if properties.get(TAGS):
        texts.append((TYPE_TAG, properties[TAGS]))
    hour = message.store_timestamp // HOUR_MS * HOUR_MS
    topic, unique = (text.encode("utf-8", "replace") for text in (message.topic, unique_key))
    return [
        (
            encode_index_key(IndexKey(hour, topic, kind, text.encode("utf-8", "replace"), unique, offset)),
            message.store_timestamp,
            offset,
        )
        for kind, text in texts
    ]


def both(store: Store) -> Iterator[tuple[list[Row], list[Row]]]:
    """Of each batch: the rows that were put together, and those of its messages one by one."""
    for batch in log_batches(store):
        made = [row for rows in batch.index_rows() for row in rows.pairs()]
        messages = batch.messages(np.arange(batch.batch.record_count))
        yield made, [row for offset, message in messages for row in rows_of_message(message, offset)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [*STORE_NAMES[::5], *REAL_NAMES[::3]])
def test_rows_are_those_of_each_message(any_dir: Directory, name: str, compiled: bool) -> None:
    with within(compiled=compiled):
        for made, expected in both(open_store(any_dir(name))):
            assert sorted(made) == sorted(expected)


def properties(*pairs: tuple[bytes, bytes]) -> bytes:
    return b"".join(name + b"\1" + value + b"\2" for name, value in pairs)


ODD: list[tuple[bytes, bytes]] = [
    (b"Topic", properties((b"UNIQ_KEY", b"u1"), (b"KEYS", b"a b a  a"), (b"TAGS", b"t"))),
    (b"Topic", properties((b"UNIQ_KEY", b"u2"), (b"KEYS", b"Aa BB Aa"))),  # two words of one Java hash
    (b"Topic", properties((b"UNIQ_KEY", b"a@b"), (b"KEYS", b"@ @K@ x@"))),
    ("主题".encode(), properties((b"UNIQ_KEY", "键".encode()), (b"KEYS", "词 é".encode()))),
    (b"Bad\xff\xfe", properties((b"UNIQ_KEY", b"\xc3"), (b"KEYS", b"\xe4\xb8 \x80 ok"), (b"TAGS", b"\xf0"))),
    (b"Topic", properties((b"KEYS", b"no unique key"))),
    (b"", properties((b"UNIQ_KEY", b"no topic"))),
    (b"Topic", properties((b"UNIQ_KEY", b"long"), (b"KEYS", b" ".join([b"k%d" % n for n in range(3000)])))),
    (b"Topic", b""),
]


@pytest.fixture
def odd(tmp_path: Path) -> Store:
    records: list[Record] = []
    offset = 0
    for number, (topic, data) in enumerate(ODD * 2):
        record = make_record(
            topic=topic, queue_id=0, queue_offset=number, physical_offset=offset, born_timestamp=NOW,
            born_host=HOST, store_timestamp=NOW + number * HOUR_MS // 3, store_host=HOST, properties=data,
            body=bytes([200]) * (100_000 if number % 4 == 0 else 10),
        )  # fmt: skip
        if number == len(ODD):
            record = replace(record, sys_flag=TRANSACTION_ROLLBACK)
        records.append(record)
        offset += record.total_size
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020}").write_bytes(b"".join(map(encode_record, records)).ljust(4 << 20, b"\0"))
    return open_store(tmp_path / "store", version="5.5.0")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("chunk", "rows"), [(8 << 20, 16 << 20), (1, 1), (150_000, 5000)])
def test_odd_texts_and_small_pieces(
    odd: Store, monkeypatch: pytest.MonkeyPatch, compiled: bool, chunk: int, rows: int
) -> None:
    monkeypatch.setattr(indexrows, "CHUNK_SIZE", chunk)
    monkeypatch.setattr(indexrows, "ROWS_SIZE", rows)
    assert dialect_for("5.5.0").message_database
    with within(compiled=compiled):
        for made, expected in both(odd):
            assert made == expected
            assert len(made) > 6000
