"""Encoding and decoding are exact inverses, for any value a structure can hold."""

from __future__ import annotations

import dataclasses
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import FormatError
from rocketfsck.formats import rocks
from rocketfsck.formats.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from rocketfsck.formats.config import InlineList, decode_config, encode_config
from rocketfsck.formats.consumequeue import (
    ExtUnit,
    decode_ext_unit,
    encode_ext_unit,
    ext_address,
    ext_offset,
    is_ext_address,
)
from rocketfsck.formats.indexfile import IndexHeader, decode_header, encode_header
from rocketfsck.formats.layout import Layout, registry
from rocketfsck.formats.magic import BORN_HOST_V6, MAGIC_V1, MAGIC_V2, STORE_HOST_V6, record_size
from rocketfsck.formats.messageid import (
    OffsetMessageId,
    UniqueMessageId,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    encode_unique_id,
    unique_id_times,
)
from rocketfsck.formats.properties import (
    parse_properties,
    property_crc_digits,
    property_crc_value,
    property_pairs,
    serialize_properties,
    split_keys,
)
from rocketfsck.formats.record import (
    Blank,
    Host,
    InnerItem,
    Record,
    decode_blank,
    decode_items,
    decode_record,
    encode_blank,
    encode_items,
    encode_record,
)
from rocketfsck.formats.rocks import (
    BoundKey,
    UnitKey,
    decode_bound_key,
    decode_unit_key,
    encode_bound_key,
    encode_unit_key,
)
from rocketfsck.formats.smallfiles import (
    BrokerIdentity,
    EpochEntry,
    decode_abort,
    decode_broker_identity,
    decode_epochs,
    encode_abort,
    encode_broker_identity,
    encode_epochs,
    filename_to_offset,
    index_filename,
    index_filename_time,
    offset_to_filename,
)

I16 = st.integers(-(1 << 15), (1 << 15) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
ADDRESSES = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
HOSTS = st.builds(Host, ADDRESSES, I32)
FIXED = {name: layout for name, layout in registry().items() if layout.is_fixed}


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record that its fields can hold, negative lengths included."""
    magic = draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
    born_host, store_host = draw(HOSTS), draw(HOSTS)
    sys_flag = draw(I32) & ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 * (len(born_host.address) == 16)
    sys_flag |= STORE_HOST_V6 * (len(store_host.address) == 16)
    body = draw(st.binary(max_size=300))
    properties = draw(st.binary(max_size=300))
    topic = draw(st.binary(max_size=127 if magic == MAGIC_V1 else 300))
    body_length = len(body) or draw(st.just(0) | st.integers(-(1 << 31), 0))
    properties_length = len(properties) or draw(st.just(0) | st.integers(-(1 << 15), 0))
    return Record(
        total_size=record_size(
            body_length, len(topic), properties_length, magic_code=magic, sys_flag=sys_flag
        ),
        magic_code=magic,
        body_crc=draw(I32),
        queue_id=draw(I32),
        flag=draw(I32),
        queue_offset=draw(I64),
        physical_offset=draw(I64),
        sys_flag=sys_flag,
        born_timestamp=draw(I64),
        born_host=born_host,
        store_timestamp=draw(I64),
        store_host=store_host,
        reconsume_times=draw(I32),
        prepared_transaction_offset=draw(I64),
        body_length=body_length,
        body=body,
        topic=topic,
        properties_length=properties_length,
        properties=properties,
    )


@given(records(), st.binary(max_size=20), st.binary(max_size=20))
def test_records(record: Record, before: bytes, behind: bytes) -> None:
    data = encode_record(record)
    assert len(data) == record.total_size
    assert decode_record(before + data + behind, len(before)) == record


@given(I32)
def test_blanks(total_size: int) -> None:
    assert decode_blank(encode_blank(Blank(total_size))) == Blank(total_size)


@pytest.mark.parametrize("layout", FIXED.values(), ids=FIXED)
@given(data=st.data())
def test_fixed_layouts(layout: Layout, data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    values: dict[str, Any] = layout.parse(raw)
    assert layout.build(values) == raw
    assert list(values) == [field.name for field in layout.fields]


@given(
    st.lists(
        st.builds(
            InnerItem,
            st.binary(max_size=50),
            st.binary(max_size=50),
            flag=I32,
            magic_code=I32,
            body_crc=I32,
        )
    )
)
def test_batch_items(items: list[InnerItem]) -> None:
    assert decode_items(encode_items(items)) == items


@given(st.builds(ExtUnit, I64, I64, st.binary(max_size=100)), st.binary(max_size=9))
def test_ext_units(unit: ExtUnit, before: bytes) -> None:
    assert decode_ext_unit(before + encode_ext_unit(unit), len(before)) == unit


@given(st.integers(0, (1 << 62)), I32)
def test_ext_addresses_are_never_hashes(offset: int, tags_code: int) -> None:
    assert ext_offset(ext_address(offset)) == offset
    assert is_ext_address(ext_address(offset))
    assert not is_ext_address(tags_code)


@given(st.builds(Checkpoint, I64, I64, I64, I64, I64))
def test_checkpoints(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint
    assert checkpoint.min_timestamp >= 0
    assert checkpoint.min_timestamp_index <= checkpoint.min_timestamp


@given(st.builds(IndexHeader, I64, I64, I64, I64, I32, I32))
def test_index_headers(header: IndexHeader) -> None:
    assert decode_header(encode_header(header)) == header


@given(
    st.lists(st.builds(EpochEntry, I32.filter(lambda n: n >= 0), I64.filter(lambda n: n >= 0)), min_size=1)
)
def test_epochs(entries: list[EpochEntry]) -> None:
    assert decode_epochs(encode_epochs(entries)).entries == tuple(entries)


@given(st.none() | st.integers(0, (1 << 31) - 1))
def test_aborts(pid: int | None) -> None:
    assert decode_abort(encode_abort(pid)) == pid


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")).filter(lambda c: c != "#"), min_size=1)


@given(st.builds(BrokerIdentity, NAMES, NAMES, I64))
def test_broker_identities(identity: BrokerIdentity) -> None:
    assert decode_broker_identity(encode_broker_identity(identity)) == identity


@given(st.builds(OffsetMessageId, ADDRESSES, I32, I64))
def test_offset_ids(message_id: OffsetMessageId) -> None:
    assert decode_offset_id(encode_offset_id(message_id)) == message_id


U16, U32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)


@given(st.builds(UniqueMessageId, ADDRESSES, U16, U32, U32, U16))
def test_unique_ids(message_id: UniqueMessageId) -> None:
    assert decode_unique_id(encode_unique_id(message_id)) == message_id


@given(st.datetimes(), st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"]))
def test_unique_id_times_find_the_time_that_made_the_id(moment: Any, zone: str) -> None:
    moment = moment.replace(microsecond=0, tzinfo=ZoneInfo(zone))
    if not 1975 < moment.year < 2100:
        moment = moment.replace(year=2023, day=min(moment.day, 28))
    begin = moment.replace(day=1, hour=0, minute=0, second=0)
    now = int(moment.timestamp()) * 1000
    span = now - int(begin.timestamp()) * 1000
    message_id = UniqueMessageId(bytes(4), 1, 1, span, 0)
    assert (now, zone) in [
        (time.timestamp, time.zone) for time in unique_id_times(message_id, range(now, now + 1), [zone])
    ]


TOPICS = st.binary(max_size=40)


@given(st.builds(UnitKey, TOPICS, I32, I64))
def test_rocksdb_unit_keys(key: UnitKey) -> None:
    assert decode_unit_key(encode_unit_key(key)) == key


@given(st.builds(BoundKey, TOPICS, I32, st.booleans()))
def test_rocksdb_bound_keys(key: BoundKey) -> None:
    assert decode_bound_key(encode_bound_key(key)) == key


TEXTS = st.binary(max_size=40).filter(lambda text: b"@" not in text)
"""Topics, groups and unique keys: no "@" is in them."""


@given(st.data())
def test_rocksdb_index_keys(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([b"K", b"T", b"U"]))
    text = b"" if kind == b"U" else data.draw(st.binary(max_size=40))
    key = rocks.IndexKey(data.draw(I64), data.draw(TEXTS), kind, text, data.draw(TEXTS), data.draw(I64))
    assert rocks.decode_index_key(rocks.encode_index_key(key)) == key


@given(st.builds(rocks.TimerKey, I64, st.binary(max_size=40)))
def test_rocksdb_timer_keys(key: rocks.TimerKey) -> None:
    assert rocks.decode_timer_key(rocks.encode_timer_key(key)) == key


@given(st.builds(rocks.TransKey, I64, TEXTS, TEXTS))
def test_rocksdb_trans_keys(key: rocks.TransKey) -> None:
    assert rocks.decode_trans_key(rocks.encode_trans_key(key)) == key


@given(st.builds(rocks.PopKey, I64, TEXTS, TEXTS, I32, I64))
def test_rocksdb_pop_keys(key: rocks.PopKey) -> None:
    assert rocks.decode_pop_key(rocks.encode_pop_key(key)) == key


@given(
    st.builds(rocks.OffsetKey, st.sampled_from(sorted(rocks.OFFSET_TABLES)), TOPICS, TOPICS, I32)
    | st.builds(
        rocks.ConfigKey,
        st.sampled_from([rocks.Table.TOPIC, rocks.Table.SUBSCRIPTION_GROUP]),
        TOPICS,
    )
    | st.builds(rocks.ConfigKey, st.sampled_from(rocks.Table), st.none())
)
def test_rocksdb_config_keys(key: rocks.ConfigKey | rocks.OffsetKey) -> None:
    assert rocks.decode_config_key(rocks.encode_config_key(key)) == key


@given(st.integers(0, (1 << 63) - 1))
def test_mapped_file_names(offset: int) -> None:
    assert filename_to_offset(offset_to_filename(offset)) == offset


@given(st.datetimes())
def test_index_file_names(moment: Any) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert index_filename_time(index_filename(moment)) == moment


CLEAN = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(CLEAN, CLEAN, min_size=1), st.booleans())
def test_properties_without_separators_survive_both_parsers(pairs: dict[str, str], trailing: bool) -> None:
    data = serialize_properties(pairs, trailing)
    assert data.endswith(b"\x02") == trailing
    assert parse_properties(data, "split") == parse_properties(data, "scan") == pairs
    assert serialize_properties(property_pairs(data, "scan"), trailing) == data


@given(st.integers(0, 0x7FFFFFFF))
def test_property_crc_digits(crc: int) -> None:
    digits = property_crc_digits(crc)
    assert len(digits) == 10
    assert property_crc_value(digits.decode()) == crc


@given(st.lists(st.text(st.characters(exclude_characters=" "), min_size=1)))
def test_keys(keys: list[str]) -> None:
    assert split_keys(" ".join(keys)) == split_keys("  ".join(keys)) == keys


NO_SURROGATES = st.text(st.characters(codec="utf-8"))
NAMES_OF_TABLES = NO_SURROGATES | I64


def _containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(values)
    inline = st.lists(values, min_size=1).map(InlineList)
    return lists | inline | st.dictionaries(NAMES_OF_TABLES, values)


VALUES = st.recursive(
    st.none() | st.booleans() | I64 | st.floats(allow_nan=False, allow_infinity=False) | NO_SURROGATES,
    _containers,
    max_leaves=20,
)


@given(VALUES)
def test_config_values(value: Any) -> None:
    data = encode_config(value)
    decoded = decode_config(data)
    assert decoded == value
    assert encode_config(decoded) == data


@given(records())
def test_records_with_one_length_changed_are_refused_or_differ(record: Record) -> None:
    changed = dataclasses.replace(record, total_size=record.total_size + 1)
    data = encode_record(changed) + b"\0"
    with pytest.raises(FormatError) as caught:
        decode_record(data)
    assert caught.value.offset == 0
