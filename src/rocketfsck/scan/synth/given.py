"""What the kernel that writes made-up messages is given of a plan, and what it tells of them."""

from __future__ import annotations

from typing import NamedTuple

from rocketfsck.formats.arrays import Longs


class Parameters(NamedTuple):
    """The numbers of a plan. Sizes in bytes, times in ms."""

    seed: int  # mixed
    step_seed: int
    start_time: int
    rate: int
    step_every: int
    step_most: int
    queue_count: int  # of a topic
    body_low: int
    body_high: int
    body_octaves: int
    content: int  # RANDOM, TEXT or BOTH
    key_low: int
    key_high: int
    word_count: int
    words_by_rank: int
    tag_count: int
    index_tags: int  # 1: tags have an index entry, too
    producer_count: int
    born_limit: int
    store_host: int  # address and port
    largest: int  # of the records
    trailing: int  # 1: 0x02 after the last property
    file_size: int
    end_number: int  # no message from this number on
    end_offset: int  # none once a record ends at this physical offset or beyond it
    external: int  # address of the function for CRCs
    capacity: int  # of the buffer


class Words(NamedTuple):
    """The tables and texts of a plan.

    `…_place` are the bounds of the pieces in the bytes of that name: of topics, of tags, and of the
    properties' names with 0x01 behind (whole pairs from FIXED_FIRST on; the last piece is the prefix of
    words). `…_bytes`, `prefixes` (the first 20 digits of each producer's uniqIDs) and `fragments` are
    addresses. `producers` are address and port in one number, `order` is that of the properties.
    """

    thresholds: Longs
    aliases: Longs
    topic_place: Longs
    topic_bytes: int
    topic_hash: Longs
    producers: Longs
    prefixes: int
    tag_place: Longs
    tag_bytes: int
    tag_codes: Longs
    order: Longs
    name_place: Longs
    name_bytes: int
    fragments: int


class Columns(NamedTuple):
    """What is said about the records in the buffer, a row each, and about their keys, a row each."""

    queue: Longs
    size: Longs
    offset: Longs
    time: Longs
    tags: Longs
    key_hash: Longs
    key_record: Longs
