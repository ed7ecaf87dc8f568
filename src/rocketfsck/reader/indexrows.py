"""The index rows that a broker puts into `rocksdbstore/` for the records of the log. Reference 11.3, 11.7.

IndexRocksDBStore#buildIndex    a row for each key, for the tags, and for the unique key
IndexRocksDBRecord              their bytes (`formats.rocksmessages`)
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.formats.properties import KEYS, TAGS, UNIQ_KEY, split_keys
from rocketfsck.formats.rocksmessages import (
    HOUR_MS,
    TYPE_KEY,
    TYPE_TAG,
    TYPE_UNIQUE,
    IndexKey,
    encode_i64,
    encode_index_key,
)
from rocketfsck.scan.options import log_options
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader


def log_messages(store: Store) -> Iterator[tuple[int, Message]]:
    """Physical offset and message, without its body, of each live record of the log.

    Raises StoreError where the log cannot be read.
    """
    for file in store.commitlog.files:
        with FileReader(file.path) as reader:
            options = log_options(store, file, read_bodies=False)
            base = file.start_offset or 0
            for message in read_messages(reader, base, options, max_body_size=0, live_only=True):
                yield base + message.pos, message


def index_rows(message: Message, offset: int) -> tuple[list[bytes], bytes]:
    """The keys of the rows for a record at a physical offset, and the value that all of them have.

    A record without topic, unique key or storeTime has no rows, nor has the end of a rolled back transaction.
    """
    properties = message.properties or {}
    unique_key = properties.get(UNIQ_KEY, "")
    if not unique_key or not message.topic or message.store_timestamp <= 0:
        return [], b""
    if message.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return [], b""
    texts = [(TYPE_KEY, key) for key in dict.fromkeys(split_keys(properties.get(KEYS, "")))]
    if properties.get(TAGS):
        texts.append((TYPE_TAG, properties[TAGS]))
    texts.append((TYPE_UNIQUE, ""))
    hour = message.store_timestamp // HOUR_MS * HOUR_MS
    topic, unique = message.topic.encode("utf-8", "replace"), unique_key.encode("utf-8", "replace")
    keys = [
        encode_index_key(IndexKey(hour, topic, kind, text.encode("utf-8", "replace"), unique, offset))
        for kind, text in texts
    ]
    return keys, encode_i64(message.store_timestamp)
