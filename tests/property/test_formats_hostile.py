"""Any bytes get an answer: a value that encodes back to them, or a FormatError with an offset inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketfsck.errors import FormatError
from rocketfsck.formats.checkpoint import decode_checkpoint
from rocketfsck.formats.config import (
    compaction_offsets,
    consumer_offsets,
    data_version,
    decode_config,
    delay_offsets,
    encode_config,
    lmq_consumer_offsets,
    topic_configs,
    valid_prefix,
)
from rocketfsck.formats.consumequeue import decode_ext_unit, encode_ext_unit
from rocketfsck.formats.indexfile import decode_header
from rocketfsck.formats.javatext import (
    java_decode,
    java_encode,
    java_hash,
    parse_int16,
    parse_int32,
    parse_int64,
    utf16_length,
)
from rocketfsck.formats.layout import registry
from rocketfsck.formats.messageid import decode_offset_id, decode_unique_id
from rocketfsck.formats.properties import Parser, parse_properties, property_crc, property_pairs
from rocketfsck.formats.record import (
    decode_blank,
    decode_host,
    decode_items,
    decode_record,
    encode_items,
    encode_record,
)
from rocketfsck.formats.rocks import decode_bound_key, decode_unit_key
from rocketfsck.formats.smallfiles import decode_abort, decode_broker_identity, decode_epochs
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile

RECORD_START = bytes.fromhex("000000bb daa320a7 69c865ed 00000003") + bytes(68) + bytes.fromhex("0000000e")
MUTANTS = st.builds(
    lambda start, tail, size, patches: _patch(size.to_bytes(4, "big") + start[4:] + tail, patches),
    st.just(RECORD_START),
    st.binary(max_size=200),
    st.integers(80, 300),
    st.lists(st.tuples(st.integers(0, 280), st.binary(min_size=1, max_size=4)), max_size=3),
)


def _patch(data: bytes, patches: list[tuple[int, bytes]]) -> bytes:
    mutable = bytearray(data)
    for pos, patch in patches:
        if pos + len(patch) <= len(mutable):
            mutable[pos : pos + len(patch)] = patch
    return bytes(mutable)


def _try(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decode(data)
    except FormatError as error:
        assert error.offset is None or 0 <= error.offset <= len(data)
        return None


@given(MUTANTS | st.binary(max_size=300))
def test_records(data: bytes) -> None:
    record = _try(decode_record, data)
    if record is not None:
        assert encode_record(record) == data[: record.total_size]


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "abort": decode_abort,
    "blank": decode_blank,
    "bound_key": decode_bound_key,
    "broker_identity": decode_broker_identity,
    "checkpoint": decode_checkpoint,
    "config": decode_config,
    "config_prefix": valid_prefix,
    "epochs": decode_epochs,
    "ext_unit": decode_ext_unit,
    "host": decode_host,
    "index_header": decode_header,
    "items": decode_items,
    "offset_id": lambda data: decode_offset_id(java_decode(data)),
    "unique_id": lambda data: decode_unique_id(java_decode(data)),
    "unit_key": decode_unit_key,
}
DECODERS.update({f"layout {name}": layout.parse for name, layout in registry().items()})


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.binary(max_size=200))
def test_any_bytes(name: str, data: bytes) -> None:
    _try(DECODERS[name], data)


@given(st.binary(max_size=80))
def test_ext_units_and_items_encode_back(data: bytes) -> None:
    unit = _try(decode_ext_unit, data)
    if unit is not None:
        assert encode_ext_unit(unit) == data[: unit.size]
    items = _try(decode_items, data)
    if items is not None:
        assert encode_items(items) == data


TEXTS = st.text(st.sampled_from("{}[]:,\"'\\/* \n01-.eEutfxn$_a主\x00\x1a\x7f"), max_size=60)


@given(TEXTS)
@example('{"$ref":"$"}')
@example('{"$ref":[{}]}')
def test_config_texts(text: str) -> None:
    value = _try(decode_config, text.encode())
    if value is None:
        return
    data = encode_config(value)
    assert encode_config(decode_config(data)) == data
    for view in (
        topic_configs,
        consumer_offsets,
        delay_offsets,
        lmq_consumer_offsets,
        compaction_offsets,
        data_version,
    ):
        _try(lambda _, view=view: view(value), b"")  # type: ignore[misc]


@given(st.binary(max_size=400), st.none() | st.integers(1, 1 << 40), st.none() | st.integers(1, 1 << 40))
def test_geometries(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, slots: int | None, entries: int | None
) -> None:
    path = tmp_path_factory.mktemp("index") / "1"
    path.write_bytes(data)
    file = IndexFile(str(path), "1", len(data), 0, len(data))
    guess = infer_index_geometry([file], slot_count=slots, entry_count=entries)
    if guess.proven:
        assert guess.slot_count and guess.slot_count > 0
        assert guess.entry_count and guess.entry_count > 0
        assert 40 + 4 * guess.slot_count + 20 * guess.entry_count == len(data)


@given(st.binary(max_size=60))
def test_java_text(data: bytes) -> None:
    text = java_decode(data)
    assert not any("\ud800" <= character <= "\udfff" for character in text)
    assert java_decode(java_encode(text)) == text
    assert -(1 << 31) <= java_hash(text) < 1 << 31
    for parse in (parse_int16, parse_int32, parse_int64):
        value = parse(text)
        assert value is None or parse(str(value)) == value


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_a_hash_and_bytes(text: str) -> None:
    java_encode(text).decode()
    expected = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for pos in range(0, len(units), 2):
        expected = 31 * expected + int.from_bytes(units[pos : pos + 2], "big")
    assert java_hash(text) == (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    assert utf16_length(text) == len(units) // 2


@given(st.binary(max_size=80))
def test_properties(data: bytes) -> None:
    parsers: tuple[Parser, ...] = ("split", "scan")
    for parser in parsers:
        pairs = property_pairs(data, parser)
        assert parse_properties(data, parser) == (dict(pairs) if data else None)
        assert all("\x02" not in name + value and "\x01" not in name for name, value in pairs)
    assert 0 <= property_crc(data) < 1 << 31
