"""Every structure as both decoders see it: rocketfsck's own, and the reader compiled from specs/ksy.

Each side is a function from bytes to plain values. Ours rejects bytes with FormatError, theirs with Rejected;
any other exception is a fault. What is compared, and what both must reject:

- fixed layouts: the start of what is given. Fewer bytes than the layout has.
- record: the start of what is given. A cut; another magic; lengths that do not make up totalSize; a negative
  topic length.
- batch items: all that is given. A cut; negative lengths; lengths that do not make up totalSize.
- commit log file: frame by frame. Nothing: the walk ends with a reason, and each record is as above.
- extension file: unit by unit. Nothing: the walk ends at the mark, or where both reject.
- index file: all that is given. Any length but that of its geometry.
- message id: all that is given. Any length but 16 and 28.
- RocksDB keys: all that is given. Lengths or separators that do not fit.
- properties: all that is given. Nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import Any

from rocketfsck.errors import FormatError
from rocketfsck.formats import consumequeue, indexfile, magic, messageid, record, rocks
from rocketfsck.formats.layout import Layout, registry
from rocketfsck.formats.properties import property_pairs

from tests.kaitai.kaitai_readers import Rejected, reader, values

Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure's two decoders."""

    ours: Decode
    theirs: Decode


class Refusal:
    """What `outcome` gives where a decoder rejects; all refusals are equal."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"rejected: {self.reason}"


def outcome(decode: Decode, data: bytes) -> Any:
    """The values, or a Refusal; other exceptions pass."""
    try:
        return decode(data)
    except (FormatError, Rejected) as error:
        return Refusal(error)


def snake(name: str) -> str:
    """RocketMQ's field name as Kaitai spells it: bodyCRC -> body_crc."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]+", lambda match: "_" + match[0], name).lower()


# Layout -> spec, types inside it.
FIXED = {
    "blank": ("rocketmq_blank",),
    "dledger_blank": ("rocketmq_dledger", "Blank"),
    "dledger_index": ("rocketmq_dledger_index", "Unit"),
    "consumequeue_unit": ("rocketmq_consumequeue", "Unit"),
    "batch_consumequeue_unit": ("rocketmq_batchconsumequeue", "Unit"),
    "index_header": ("rocketmq_indexfile", "Header"),
    "index_entry": ("rocketmq_indexfile", "Entry"),
    "checkpoint": ("rocketmq_checkpoint",),
    "timer_wheel_slot": ("rocketmq_timerwheel", "Slot"),
    "timer_log_unit": ("rocketmq_timerlog", "Unit"),
    "timer_log_filler": ("rocketmq_timerlog", "Blank"),
    "timer_check": ("rocketmq_timercheck",),
    "rocksdb_consumequeue_unit": ("rocketmq_rocksdb_consumequeue", "Unit"),
    "rocksdb_consumequeue_offset": ("rocketmq_rocksdb_consumequeue", "Bound"),
    "rocksdb_timer_value": ("rocketmq_rocksdb_rows", "TimerValue"),
    "rocksdb_trans_value": ("rocketmq_rocksdb_rows", "TransValue"),
    "rocksdb_data_version": ("rocketmq_rocksdb_rows", "DataVersion"),
    "tiered_index_header": ("rocketmq_tiered_index", "Header"),
    "tiered_compacted_item": ("rocketmq_tiered_index", "CompactedItem"),
    "tiered_index_slot": ("rocketmq_tiered_index", "Slot"),
    "tiered_coda": ("rocketmq_tiered_log",),
    "tiered_compacted_slot": ("rocketmq_tiered_index", "CompactedSlot"),
}

# Fields in which a spec allows one value only, where a layout reads any: others are not compared.
CONSTANT = {
    "blank": {"magicCode": -875286124},
    "dledger_blank": {"magic": -1},
    "tiered_coda": {"magicCode": -875286124},
    "timer_log_unit": {"size": 52},
    "timer_log_filler": {"magic": -875286124},
}


def fixed_structure(layout: Layout) -> Structure:
    """A layout without judgement on values, beside the type of the spec."""
    read = reader(*FIXED[layout.name])
    names = [field.name for field in layout.fields]

    def theirs(data: bytes) -> dict[str, int]:
        found = read(data)
        return {name: getattr(found, snake(name)) for name in names}

    return Structure(layout.parse, theirs)


def _our_record(data: bytes) -> dict[str, Any]:
    found = record.decode_record(data)
    plain = {field.name: getattr(found, field.name) for field in fields(found)}
    return plain | {name: astuple(plain[name]) for name in ("born_host", "store_host")}


def record_values(found: Any) -> dict[str, Any]:
    """A record that Kaitai read, as plain values."""
    content = found.content
    host = {
        name: (getattr(content, name).address, getattr(content, name).port)
        for name in ("born_host", "store_host")
    }
    return (
        values(found, "total_size", "magic_code")
        | values(content, *(
            "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp",
            "store_timestamp", "reconsume_times", "prepared_transaction_offset", "body_length", "body",
            "topic", "properties_length",
        ))
        | host
        | {"properties": content._raw_properties}
    )  # fmt: skip


_read_record = reader("rocketmq_record")
RECORD = Structure(_our_record, lambda data: record_values(_read_record(data)))


def _our_items(data: bytes) -> list[tuple[Any, ...]]:
    return [
        (item.total_size, item.magic_code, item.body_crc, item.flag, item.body, item.properties)
        for item in record.decode_items(data)
    ]


def _their_items(data: bytes) -> list[tuple[Any, ...]]:
    # Without bytes there is nothing that repeats.
    return [
        (item.total_size, item.magic_code, item.body_crc, item.flag, item.body, item._raw_properties)
        for item in _read_items(data).items
    ]


_read_items = reader("rocketmq_batch_items")
ITEMS = Structure(_our_items, _their_items)


def _our_log(data: bytes) -> list[tuple[int, Any]]:
    """Frame starts with the record there; last the reason why the walk ended."""
    frames: list[tuple[int, Any]] = []
    pos = 0
    while pos < len(data) or not frames:
        if len(data) - pos < 8:
            return [*frames, (pos, "cut")]
        total_size, magic_code = record.read_frame(data, pos)
        if magic_code == magic.MAGIC_BLANK:
            return [*frames, (pos, ("blank", record.decode_blank(data, pos).total_size))]
        if magic_code not in (magic.MAGIC_V1, magic.MAGIC_V2):
            return [*frames, (pos, "illegal_magic" if total_size or magic_code else "unwritten")]
        if not magic.MIN_RECORD_SIZE <= total_size <= len(data) - pos:
            return [*frames, (pos, "misframed")]
        frames.append((pos, outcome(_our_record, data[pos : pos + total_size])))
        pos += total_size
    return frames


def _their_log(data: bytes) -> list[tuple[int, Any]]:
    frames: list[tuple[int, Any]] = []
    for frame in _read_log(data).frames:
        kind = frame.kind.name
        if kind == "record":
            found = outcome(lambda _, frame=frame: record_values(frame.record), b"")  # type: ignore[misc]
        else:
            found = (kind, frame.blank.total_size) if kind == "blank" else kind
        frames.append((frame.start_pos, found))
    return frames


_read_log = reader("rocketmq_commitlog")
LOG = Structure(_our_log, _their_log)


def _our_ext(data: bytes) -> list[Any]:
    found: list[Any] = []
    pos = 0
    while pos < len(data) or not found:
        unit = outcome(lambda whole: consumequeue.decode_ext_unit(whole, pos), data)  # noqa: B023
        if unit is None or isinstance(unit, Refusal):
            return [*found, (pos, unit)]
        found.append((pos, unit.size, unit.tags_code, unit.msg_store_time, unit.filter_bit_map))
        pos += unit.size
    return found


def _their_ext(data: bytes) -> list[Any]:
    found: list[Any] = []
    for frame in _read_ext(data).frames:
        if frame.kind.name == "end_of_file":
            return [*found, (frame.start_pos, None)]
        try:
            unit = frame.unit
        except Rejected as error:
            return [*found, (frame.start_pos, Refusal(error))]
        if unit is None:
            return [*found, (frame.start_pos, Refusal(FormatError(frame.kind.name)))]
        found.append((frame.start_pos, unit.size, unit.tags_code, unit.msg_store_time, unit.filter_bit_map))
    return found


_read_ext = reader("rocketmq_consumequeue_ext")
EXT = Structure(_our_ext, _their_ext)


def index_structure(slot_count: int, entry_count: int) -> Structure:
    """A whole index file of this geometry: header, slots, entries."""
    read = reader("rocketmq_indexfile")
    header_names = [field.name for field in indexfile.HEADER.fields]
    entry_names = [field.name for field in indexfile.ENTRY.fields]

    def ours(data: bytes) -> Any:
        if len(data) != indexfile.index_file_size(slot_count, entry_count):
            raise FormatError("not the length of this geometry")
        return (
            indexfile.HEADER.parse(data),
            [
                indexfile.SLOT.parse(data, indexfile.slot_pos(slot))["newestIndex"]
                for slot in range(slot_count)
            ],
            [
                indexfile.ENTRY.parse(data, indexfile.entry_pos(entry, slot_count))
                for entry in range(entry_count)
            ],
        )

    def theirs(data: bytes) -> Any:
        found = read(data, slot_count, entry_count)
        return (
            {name: getattr(found.header, snake(name)) for name in header_names},
            found.slots,
            [{name: getattr(entry, snake(name)) for name in entry_names} for entry in found.entries],
        )

    return Structure(ours, theirs)


def _units(layout: Layout) -> Decode:
    def decode(data: bytes) -> list[dict[str, Any]]:
        return [layout.parse(data, pos) for pos in range(0, len(data) - layout.size + 1, layout.size)]

    return decode


def units_structure(layout: Layout) -> Structure:
    """A file of units of a fixed layout, a cut one at its end left out."""
    module, *_ = FIXED[layout.name]
    read = reader(module)
    names = [field.name for field in layout.fields]

    def theirs(data: bytes) -> list[dict[str, Any]]:
        return [{name: getattr(unit, snake(name)) for name in names} for unit in read(data).units]

    return Structure(_units(layout), theirs)


_read_id = reader("rocketmq_message_id")


def _their_offset_id(data: bytes) -> tuple[Any, ...]:
    found = _read_id(data).as_offset_id
    return found.address, found.port, found.physical_offset


def _their_unique_id(data: bytes) -> tuple[Any, ...]:
    found = _read_id(data).as_unique_id
    return found.address, found.pid, found.loader_hash, found.time_span, found.counter


OFFSET_ID = Structure(lambda data: astuple(messageid.decode_offset_id(data.hex())), _their_offset_id)
UNIQUE_ID = Structure(lambda data: astuple(messageid.decode_unique_id(data.hex())), _their_unique_id)


_read_properties = reader("rocketmq_properties")


def _their_pairs(data: bytes) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    split, scan = [], []
    for segment in _read_properties(data).segments:
        if segment.is_pair_by_scan:
            scan.append((segment.name.decode("utf-8", "replace"), segment.value.decode("utf-8", "replace")))
        pieces = list(segment.pieces) if segment._io.size() else []
        while pieces and not pieces[-1]:
            pieces.pop()
        if len(pieces) == 2:
            split.append((pieces[0].decode("utf-8", "replace"), pieces[1].decode("utf-8", "replace")))
    return split, scan


PROPERTIES = Structure(
    lambda data: (property_pairs(data, "split"), property_pairs(data, "scan")),
    _their_pairs,
)
"""Not for encoded surrogates (`ED A0..BF`), which Java and Python decode differently."""


_read_unit_key = reader("rocketmq_rocksdb_consumequeue", "UnitKey")
_read_bound_key = reader("rocketmq_rocksdb_consumequeue", "BoundKey")


def _their_unit_key(data: bytes) -> tuple[Any, ...]:
    found = _read_unit_key(data)
    return found.name.topic, found.queue_id, found.cq_offset


def _their_bound_key(data: bytes) -> tuple[Any, ...]:
    found = _read_bound_key(data)
    return found.name.topic, found.queue_id, found.bound == b"max"


_read_offset_key = reader("rocketmq_rocksdb_rows", "OffsetKey")


def _our_offset_key(data: bytes) -> tuple[Any, ...]:
    found = rocks.decode_config_key(data)
    if not isinstance(found, rocks.OffsetKey):
        raise FormatError("another key", offset=0)
    return astuple(found)


def _their_offset_key(data: bytes) -> tuple[Any, ...]:
    found = _read_offset_key(data)
    return found.table, found.group.name, found.topic.name, found.queue_id


_read_timer_key = reader("rocketmq_rocksdb_rows", "TimerKey")
_read_trans_key = reader("rocketmq_rocksdb_rows", "TransKey")
_read_index_key = reader("rocketmq_rocksdb_rows", "IndexKey")
_read_pop_key = reader("rocketmq_rocksdb_rows", "PopKey")


def _their_timer_key(data: bytes) -> tuple[Any, ...]:
    found = _read_timer_key(data)
    return found.deliver_time, found.unique_key


def _their_trans_key(data: bytes) -> tuple[Any, ...]:
    found = _read_trans_key(data)
    return found.phy_offset, found.topic, found.unique_key


def _their_index_key(data: bytes) -> tuple[Any, ...]:
    found = _read_index_key(data)
    names = found.names
    text, unique_key = b"", names.texts
    if names.text_start is not None:
        text, _, unique_key = names.texts.rpartition(b"@")
        assert text.startswith(names.text_start)
    return found.hour, names.topic, names.kind, text, unique_key, found.phy_offset


def _their_pop_key(data: bytes) -> tuple[Any, ...]:
    found = _read_pop_key(data)
    return found.visible_time, found.names.group, found.names.topic, found.queue_id, found.queue_offset


TIMER_KEY = Structure(lambda data: astuple(rocks.decode_timer_key(data)), _their_timer_key)
TRANS_KEY = Structure(lambda data: astuple(rocks.decode_trans_key(data)), _their_trans_key)
INDEX_KEY = Structure(lambda data: astuple(rocks.decode_index_key(data)), _their_index_key)
POP_KEY = Structure(lambda data: astuple(rocks.decode_pop_key(data)), _their_pop_key)
OFFSET_KEY = Structure(_our_offset_key, _their_offset_key)
UNIT_KEY = Structure(lambda data: astuple(rocks.decode_unit_key(data)), _their_unit_key)
BOUND_KEY = Structure(lambda data: astuple(rocks.decode_bound_key(data)), _their_bound_key)

LAYOUTS = registry()
