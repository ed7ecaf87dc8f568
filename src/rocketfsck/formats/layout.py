"""One declaration of a binary layout, and every view that is derived from it.

A layout is a list of named construct fields under RocketMQ's own names, all big-endian. From it come the
construct `Struct` that encodes and decodes, the field offsets, the NumPy dtype, the Arrow schema and the rows
of the specification's tables. Errors are `FormatError` with the offset of the field that is wrong, relative
to the bytes given.

The names under which fields are shown: RocketMQ's own, in snake case, one name for one thing.

Layouts keep the names of RocketMQ's sources. What people and programs get (dump, query, JSON, Arrow, Spark,
Python) has the names that `shown_name` makes of them: snake case, and the words of the design's section 8:
offsets end in `_offset` (physical or queue, said in full), byte sizes in `_size` or are `size`, counts in
`_count`, points in time in milliseconds in `_timestamp`. What each name means is in `specs/names.md`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import SEEK_CUR, BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from construct import (
    Bytes,
    Construct,
    ConstructError,
    Container,
    ExprValidator,
    FormatField,
    Int8sb,
    Int16sb,
    Int32sb,
    Int64sb,
    SizeofError,
    StreamError,
    Struct,
    Subconstruct,
)

from rocketfsck.errors import FormatError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_WORD = re.compile("(?<=[a-z0-9])(?=[A-Z])")

SHOWN_NAMES: Mapping[str, str] = {
    "batchSize": "batch_count",
    "beginPhyOffset": "begin_physical_offset",
    "bodyLen": "body_size",
    "bodyLength": "body_size",
    "confirmPhyOffset": "confirm_physical_offset",
    "cqOffset": "queue_offset",
    "currWriteTime": "write_timestamp",
    "deliverTime": "deliver_timestamp",
    "endPhyOffset": "end_physical_offset",
    "length": "items_size",
    "lastReadTimeMs": "last_read_timestamp",
    "msgStoreTime": "store_timestamp",
    "num": "message_count",
    "offsetMsgId": "offset_message_id",
    "offsetPy": "physical_offset",
    "phyOffset": "physical_offset",
    "position": "items_pos",
    "propertiesLength": "properties_size",
    "sizePy": "message_size",
    "storeTime": "store_timestamp",
    "topicLength": "topic_size",
    "totalSize": "size",
    "uniqKey": "unique_key",
    "visibleTime": "visible_timestamp",
}
"""Fields whose name is not just RocketMQ's in snake case: other words of RocketMQ's for the same thing."""

UNIT_NAMES: Mapping[str, str] = {"offset": "physical_offset"}
"""Of units of consume queues: `offset` alone is where a row itself is."""


def snake_case(field: str) -> str:
    """RocketMQ's name of a field in snake case."""
    return _WORD.sub("_", field).lower()


@cache
def shown_name(field: str) -> str:
    """The name under which a field of a layout, or a value named in its manner, is shown."""
    return SHOWN_NAMES.get(field) or snake_case(field)


def shown_unit_name(field: str) -> str:
    """`shown_name` for a field of a consume queue's unit."""
    return UNIT_NAMES.get(field) or shown_name(field)


def shown_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under the names that are shown."""
    return {shown_name(name): value for name, value in values.items()}


Buffer = bytes | bytearray | memoryview

I8, I16, I32, I64 = Int8sb, Int16sb, Int32sb, Int64sb

_KINDS = {">b": "i8", ">h": "i16", ">l": "i32", ">q": "i64"}
_NUMPY_KINDS = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
_STRUCT_KINDS = {"i8": "b", "i16": "h", "i32": "i", "i64": "q"}


class _Placed(Subconstruct):
    """A field that turns construct's own errors into FormatError with the field's offset."""

    def __init__(self, name: str, subcon: Construct) -> None:
        super().__init__(subcon)
        self._title = name

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        start = stream.tell()
        try:
            return self.subcon._parsereport(stream, context, path)
        except ConstructError as error:
            fault = (
                "needs more bytes than there are" if isinstance(error, StreamError) else "impossible value"
            )
            raise FormatError(f"{self._title}: {fault}", offset=context._params.base + start) from error

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        start = stream.tell()
        try:
            return self.subcon._build(obj, stream, context, path)
        except (ConstructError, TypeError, AttributeError) as error:
            raise FormatError(f"{self._title}: {obj!r} does not fit", offset=start) from error


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a layout.

    `kind` is i8, i16, i32, i64 or bytes (`i8|i16` where the width depends on the record). `offset` and `size`
    are in bytes, None where they depend on the fields before. `unit` says what the number counts.
    """

    name: str
    kind: str
    offset: int | None
    size: int | None
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class Step:
    """Neighbouring fields that are read at once: plain integers by one `packed`, any other field alone."""

    placed: tuple[tuple[str, _Placed], ...]
    packed: struct.Struct | None

    def read(self, stream: BytesIO, values: Container) -> None:
        """Add the values of the fields; FormatError, by the field that it is about, where one cannot be."""
        if self.packed is not None:
            data = stream.read(self.packed.size)
            if len(data) == self.packed.size:
                for (name, _), value in zip(self.placed, self.packed.unpack(data), strict=True):
                    values[name] = value
                return
            stream.seek(-len(data), SEEK_CUR)
        for name, placed in self.placed:
            values[name] = placed._parsereport(stream, values, name)


@dataclass(frozen=True, slots=True)
class Layout:
    """A structure on disk: its construct `struct` and its `fields` in order. `section` is the reference's.

    `steps` are the fields as they are read: the same constructs, but neighbouring integers at once, which
    takes a third of the time.
    """

    name: str
    title: str
    section: str
    struct: Struct
    fields: tuple[Field, ...]
    steps: tuple[Step, ...]

    @property
    def is_fixed(self) -> bool:
        """Whether every value of this layout has the same number of bytes."""
        return self.fields[-1].offset is not None and self.fields[-1].size is not None

    @property
    def size(self) -> int:
        """Bytes of a fixed layout; TypeError for a variable one."""
        last = self.fields[-1]
        if last.offset is None or last.size is None:
            raise TypeError(f"{self.name} has no fixed size")
        return last.offset + last.size

    @property
    def least_size(self) -> int:
        """Bytes of the fields that always have as many: of the structure where the others may be empty."""
        return sum(field.size or 0 for field in self.fields)

    def field(self, name: str) -> Field:
        """The field of that name; KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def offset(self, name: str) -> int:
        """Bytes before the field; TypeError where that depends on the fields before it."""
        offset = self.field(name).offset
        if offset is None:
            raise TypeError(f"{self.name}.{name} has no fixed offset")
        return offset

    def parse(self, data: Buffer, pos: int = 0, end: int | None = None) -> dict[str, Any]:
        """The values of the structure at `pos`, by field name; bytes from `end` on are not looked at.

        FormatError where the bytes end too early or a field has a value it cannot have.
        """
        if pos < 0:
            raise FormatError(f"{self.name}: position {pos} is negative", offset=pos)
        if self.is_fixed:
            end = pos + self.size if end is None else min(end, pos + self.size)
        stream = BytesIO(data[pos:end])
        values = Container(_params=Container(base=pos))
        for step in self.steps:
            step.read(stream, values)
        del values["_params"]
        return dict(values)

    def zeros(self) -> dict[str, int]:
        """0 for every field, for a layout of integers."""
        return dict.fromkeys((field.name for field in self.fields), 0)

    def build(self, values: Mapping[str, Any]) -> bytes:
        """The bytes of these values; FormatError for a missing one or one that its field cannot hold."""
        for field in self.fields:
            if field.name not in values:
                raise FormatError(f"{field.name}: missing", offset=field.offset)
        built: bytes = self.struct.build(dict(values))
        return built

    def packer(self, first: str = "", last: str = "") -> struct.Struct:
        """The values of the fields from `first` to `last` as a tuple, all fields if neither is given.

        For fields of fixed sizes. The packer is quicker than `parse` and `build`, and says less of what does
        not fit.
        """
        return struct.Struct(">" + "".join(map(_struct_format, self._part(first, last))))

    def dtype(self, last: str = "") -> np.dtype[np.void]:
        """The big-endian NumPy dtype, packed as on disk, of the fields up to `last`, all if it is not given.

        For fields of fixed sizes; byte fields are void.
        """
        import numpy as np

        return np.dtype([(field.name, _numpy_format(field)) for field in self._part("", last)])

    def _part(self, first: str, last: str) -> tuple[Field, ...]:
        names = [field.name for field in self.fields]
        low = names.index(first) if first else 0
        return self.fields[low : names.index(last) + 1 if last else None]

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema: integers by width, byte fields as binary."""
        import pyarrow as pa

        widths = {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64()}

        def arrow_type(field: Field) -> pa.DataType:
            if field.kind == "bytes":
                return pa.binary() if field.size is None else pa.binary(field.size)
            return widths[field.kind.rpartition("|")[2]]

        return pa.schema([pa.field(field.name, arrow_type(field), nullable=False) for field in self.fields])

    def table(self) -> list[tuple[str, str, str, str, str]]:
        """Rows for the specification: offset ("" where it is not fixed), type, name, unit, meaning."""
        offsets = ("" if field.offset is None else str(field.offset) for field in self.fields)
        return [
            (offset, _type_text(field), field.name, field.unit, field.doc)
            for offset, field in zip(offsets, self.fields, strict=True)
        ]


def _numpy_format(field: Field) -> str:
    if field.size is None:
        raise TypeError(f"{field.name} has no fixed size")
    return f"V{field.size}" if field.kind == "bytes" else ">" + _NUMPY_KINDS[field.kind]


def _struct_format(field: Field) -> str:
    if field.size is None:
        raise TypeError(f"{field.name} has no fixed size")
    return f"{field.size}s" if field.kind == "bytes" else _STRUCT_KINDS[field.kind]


def _type_text(field: Field) -> str:
    return field.kind if field.kind != "bytes" or field.size is None else f"bytes[{field.size}]"


@dataclass(frozen=True, slots=True)
class Declared:
    """A field as declared: see `field`."""

    name: str
    subcon: Construct
    unit: str
    doc: str
    kind: str


def field(
    name: str, subcon: Construct, unit: str = "", doc: str = "", *, kind: str | None = None
) -> Declared:
    """Declare a field. `kind` is derived from construct's integer and byte types and given for all others."""
    if kind is None:
        plain = subcon.subcon if isinstance(subcon, ExprValidator) else subcon
        kind = _KINDS[plain.fmtstr] if isinstance(plain, FormatField) else "bytes"
    return Declared(name, subcon, unit, doc, kind)


def fields_of(value: type) -> tuple[Declared, ...]:
    """The fields that the members of a dataclass declare, in the order on disk.

    `bit_map: Annotated[bytes, field("bitMapSize", …), field("bitMap", …)]` is the member of its last field;
    what is before that, such as a length, has no member. The fields of a base come first.
    """
    return tuple(item for items in _annotated(value).values() for item in items)


@cache
def members_of(value: type) -> dict[str, str]:
    """The members of such a dataclass by the names of their fields."""
    return {items[-1].name: member for member, items in _annotated(value).items()}


def values_of(value: Any) -> dict[str, Any]:
    """The values of an object of such a dataclass by the names of the fields."""
    kind: Any = type(value)
    return {name: getattr(value, member) for name, member in members_of(kind).items()}


def _annotated(value: type) -> dict[str, tuple[Declared, ...]]:
    found = {}
    for kind in reversed(value.__mro__):
        for member, hint in inspect.get_annotations(kind, eval_str=True).items():
            if fields := getattr(hint, "__metadata__", ()):
                found[member] = fields
    return found


def checked(subcon: Construct, predicate: Callable[[Any, Any], bool]) -> Construct:
    """`subcon` for values that the predicate of (value, fields before) takes; others are FormatErrors."""
    return ExprValidator(subcon, predicate)


def not_negative(value: int, _: Any) -> bool:
    """For `checked`: lengths that cannot be below zero."""
    return value >= 0


_REGISTRY: dict[str, Layout] = {}


def declare(name: str, title: str, section: str, *declared: Declared) -> Layout:
    """Make a layout of the fields, derive their offsets and enter it in the registry under `name`."""
    fields = []
    offset: int | None = 0
    for item in declared:
        try:
            size: int | None = item.subcon.sizeof()
        except (SizeofError, KeyError):  # the size depends on another field
            size = None
        fields.append(Field(item.name, item.kind, offset, size, item.unit, item.doc))
        offset = None if offset is None or size is None else offset + size
    placed = [(item.name, _Placed(item.name, item.subcon)) for item in declared]
    struct = Struct(*(name / subcon for name, subcon in placed))
    layout = _REGISTRY[name] = Layout(name, title, section, struct, tuple(fields), _steps(placed))
    return layout


def _steps(placed: Sequence[tuple[str, _Placed]]) -> tuple[Step, ...]:
    steps = []
    for is_plain, group in groupby(placed, lambda item: isinstance(item[1].subcon, FormatField)):
        fields = tuple(group)
        if is_plain:
            kinds = (_STRUCT_KINDS[_KINDS[subcon.subcon.fmtstr]] for _, subcon in fields)
            steps.append(Step(fields, struct.Struct(">" + "".join(kinds))))
        else:
            steps.append(Step(fields, None))
    return tuple(steps)


def registry() -> dict[str, Layout]:
    """Every layout of this package by name; imports all of its modules."""
    package = importlib.import_module("rocketfsck.formats")
    for module in pkgutil.iter_modules(package.__path__, "rocketfsck.formats."):
        importlib.import_module(module.name)
    return dict(_REGISTRY)


__all__ = [
    "I8", "I16", "I32", "I64", "Buffer", "Bytes", "Field", "Layout", "checked", "declare", "field",
    "fields_of", "members_of", "not_negative", "registry", "values_of",
]  # fmt: skip
