"""What is derived from a layout agrees with what construct does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from rocketfsck import formats
from rocketfsck.errors import FormatError
from rocketfsck.formats.checkpoint import CHECKPOINT, Checkpoint
from rocketfsck.formats.consumequeue import EXT_UNIT, UNIT, ExtUnit
from rocketfsck.formats.indexfile import ENTRY, HEADER, Entry, IndexHeader
from rocketfsck.formats.layout import Layout, members_of, registry
from rocketfsck.formats.record import (
    BLANK,
    INNER_ITEM,
    RECORD,
    RECORD_HEADER,
    Blank,
    GivenNumbers,
    InnerItem,
    Record,
    RecordHeader,
)

LAYOUTS = registry()
FIXED = {name: layout for name, layout in LAYOUTS.items() if layout.is_fixed}


def test_registry_has_the_layouts_of_every_module() -> None:
    """Their sizes are those of the vectors, which each layout has (`tests/vectors`)."""
    texts = (path.read_text("utf-8") for path in Path(formats.__path__[0]).glob("*.py"))
    declared = [name for text in texts for name in re.findall(r'= declare\(\s*"(\w+)"', text)]
    assert sorted(declared) == sorted(LAYOUTS)
    assert all(layout.name == name for name, layout in LAYOUTS.items())
    assert all(field.doc for layout in LAYOUTS.values() for field in layout.fields)


IMPLIED = (
    (Checkpoint, CHECKPOINT, ""),
    (IndexHeader, HEADER, ""),
    (Entry, ENTRY, ""),
    (ExtUnit, EXT_UNIT, "size bitMapSize"),
    (InnerItem, INNER_ITEM, "totalSize bodyLength propertiesLength"),
    (Record, RECORD, "topicLength"),
    (Blank, BLANK, "magicCode"),
)
"""Dataclasses that declare a layout, and its fields that follow from the members."""


@pytest.mark.parametrize(("value", "layout", "implied"), IMPLIED, ids=lambda item: getattr(item, "name", ""))
def test_a_value_has_a_member_for_each_field(value: type, layout: Layout, implied: str) -> None:
    members = members_of(value)
    names = [field.name for field in layout.fields]
    assert [name for name in names if name not in members] == implied.split()
    assert list(members) == [name for name in names if name in members]
    own = {"number"} if value is Entry else set()
    assert {item.name for item in fields(value)} - set(members.values()) == own


def test_what_a_writer_may_be_given_are_numbers_of_a_record() -> None:
    given = {item.name: item.default for item in fields(GivenNumbers)}
    header = {item.name: item.default for item in fields(RecordHeader)}
    assert given == {name: default for name, default in header.items() if default is not MISSING}


@pytest.mark.parametrize("layout", FIXED.values(), ids=FIXED)
def test_numpy_reads_what_construct_reads(layout: Layout) -> None:
    data = np.random.default_rng(1).bytes(layout.size)
    values = layout.parse(data)
    assert layout.build(values) == data
    row = np.frombuffer(data, layout.dtype())[0]
    native = np.frombuffer(data, layout.dtype()).astype(layout.dtype().newbyteorder("="))[0]
    for field in layout.fields:
        expected = values[field.name]
        for found in (row[field.name], native[field.name]):
            assert (found.tobytes() if isinstance(expected, bytes) else int(found)) == expected
        assert layout.offset(field.name) == layout.field(field.name).offset
    assert dict(zip(values, layout.packer().unpack(data), strict=True)) == values
    assert layout.packer().size == layout.size
    first, last = layout.fields[0].name, layout.fields[-1].name
    assert layout.packer(last, last).unpack(data[layout.offset(last) :]) == (values[last],)
    assert layout.packer(first, first).unpack_from(data) == (values[first],)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_fields_that_are_read_at_once_are_those_of_construct(layout: Layout) -> None:
    """Any bytes, also too few: the same values as field by field, or the same error at the same place."""

    def field_by_field(data: bytes) -> dict[str, object]:
        values = layout.struct.parse_stream(BytesIO(data[7:]), base=7)
        return {field.name: values[field.name] for field in layout.fields}

    draw, seen = Random(3), set()
    for number in range(2 * 160):
        size = 9 + number // 2
        # lengths of too much; lengths of nothing, with the least size that an extension unit may have
        noise = draw.randbytes(size) if number % 2 else bytes(8) + b"\x14" + bytes(size - 9)
        pos = draw.randrange(size)
        data = (noise[:pos] + draw.randbytes(3) + noise[pos:])[:size]
        found = said(partial(layout.parse, data, 7))
        assert found == said(partial(field_by_field, data))
        seen.add(type(found))
    assert seen == {dict, tuple}


def said(read: Callable[[], dict[str, object]]) -> object:
    try:
        return read()
    except FormatError as error:
        return str(error), error.offset


def test_a_packer_is_of_fields_of_fixed_sizes() -> None:
    with pytest.raises(TypeError, match="filterBitMap has no fixed size"):
        EXT_UNIT.packer()
    assert EXT_UNIT.packer(last="bitMapSize").format == ">hqqh"


@pytest.mark.parametrize("layout", FIXED.values(), ids=FIXED)
def test_errors_point_at_the_field_that_is_cut(layout: Layout) -> None:
    data = bytes(layout.size)
    for size in range(layout.size):
        with pytest.raises(FormatError) as caught:
            layout.parse(b"!!!" + data[:size], 3)
        cut = max(
            field.offset for field in layout.fields if field.offset is not None and field.offset <= size
        )
        assert caught.value.offset == 3 + cut


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_arrow_schema_and_table_name_every_field(layout: Layout) -> None:
    schema = layout.arrow_schema()
    names = [field.name for field in layout.fields]
    assert schema.names == names
    rows = layout.table()
    assert [row[2] for row in rows] == names
    for row, field in zip(rows, layout.fields, strict=True):
        assert row[0] == ("" if field.offset is None else str(field.offset))
        assert row[1].split("[")[0] == field.kind


def test_arrow_types() -> None:
    assert UNIT.arrow_schema().types == [pa.int64(), pa.int32(), pa.int64()]
    record = RECORD.arrow_schema()
    assert record.field("topicLength").type == pa.int16()
    assert record.field("body").type == pa.binary()
    assert RECORD_HEADER.arrow_schema().field("bornHost").type == pa.binary(8)
    assert dict(zip([row[2] for row in RECORD_HEADER.table()], RECORD_HEADER.table(), strict=True))[
        "bornHost"
    ][1] == ("bytes[8]")


def test_kinds_of_checked_fields_are_their_integers() -> None:
    assert [row[1] for row in EXT_UNIT.table()] == ["i16", "i64", "i64", "i16", "bytes"]


def test_variable_layouts_have_no_size_and_no_dtype() -> None:
    for layout in (RECORD, EXT_UNIT):
        with pytest.raises(TypeError):
            _ = layout.size
        with pytest.raises(TypeError):
            layout.dtype()
    with pytest.raises(TypeError):
        RECORD.offset("storeHost")
    with pytest.raises(KeyError):
        RECORD.offset("nothing")


def test_build_refuses_what_is_missing_or_does_not_fit() -> None:
    with pytest.raises(FormatError, match="size: missing") as caught:
        UNIT.build({"offset": 0, "tagsCode": 0})
    assert caught.value.offset == 8
    with pytest.raises(FormatError, match="tagsCode") as caught:
        UNIT.build({"offset": 0, "size": 0, "tagsCode": 1 << 63})
    assert caught.value.offset == 12
    with pytest.raises(FormatError, match="size"):
        UNIT.build({"offset": 0, "size": "1", "tagsCode": 0})


def test_parse_stops_at_the_end_given() -> None:
    with pytest.raises(FormatError) as caught:
        UNIT.parse(bytes(40), 0, 10)
    assert caught.value.offset == 8
    with pytest.raises(FormatError, match="negative"):
        UNIT.parse(bytes(40), -20)


LIGHT = ("config", "dialect", "javatext", "magic", "smallfiles", "messageid", "properties")


@pytest.mark.parametrize("module", ["", ".record", *(f".{name}" for name in LIGHT)])
def test_imports_are_light(module: str) -> None:
    """numpy and pyarrow are never imported with a module, construct only where layouts are."""
    heavy = ["numpy", "pyarrow"] if module == ".record" else ["numpy", "pyarrow", "construct"]
    code = f"import sys, rocketfsck.formats{module}; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
