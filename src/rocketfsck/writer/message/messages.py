"""What is handed to the writer: messages as a producer or a broker's own services would put them.

A message says what the commit log cannot derive: topic, queue, body as stored, properties, hosts and both
timestamps. What a broker derives on the way (queue offset, physical offset, CRC, the rewriting of delayed and
half messages, INNER_BASE, multi-dispatch offsets) the writer derives too. Reference 2.1 to 2.13.

The properties of a record: from what the caller gives to the bytes that a broker stores. Reference 2.5.

A broker keeps properties in a HashMap and writes them in its iteration order, which depends on the number of
buckets it began with (16, from 5.1.0 on 128). Raw bytes are stored as they are, as brokers up to 4.8.0 store
the producer's own string, until something must be added: then they are parsed and written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from rocketfsck.errors import UsageError
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.record import GivenNumbers, Host, InnerItem

Pairs = tuple[tuple[str, str | None], ...]
Properties = Mapping[str, str | None] | Pairs | bytes
"""A mapping is written in the order of the broker's HashMap, pairs in the order given, bytes as they are."""

OP_TAG = "d"
RETRY_PREFIX = "%RETRY%"
LMQ_PREFIX = "%LMQ%"

DEFAULT_BORN_HOST = Host(bytes((127, 0, 0, 1)), 50000)
DEFAULT_STORE_HOST = Host(bytes((127, 0, 0, 1)), 10911)


class Kind(Enum):
    """How a message is put.

    PREPARED, COMMIT and ROLLBACK set the transaction bits of sysFlag. HALF is a transactional message on its
    way into the half topic (4.3.0+). DELIVERED is a delayed message whose time has come: it goes to its topic
    whatever its DELAY says. A LEGACY_BATCH becomes one record an item, an INNER_BATCH one record.
    """

    NORMAL = "normal"
    PREPARED = "prepared"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    HALF = "half"
    DELIVERED = "delivered"
    LEGACY_BATCH = "legacy batch"
    INNER_BATCH = "inner batch"


class MessageError(UsageError):
    """A message that a broker of this dialect and geometry would refuse or could not store.

    `number` is its place among the messages given, from 0; None before it is known.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message if number is None else f"message {number}: {message}")
        self.reason = message
        self.number = number


@dataclass(frozen=True, slots=True)
class OutgoingMessage(GivenNumbers):
    """One message, or one batch, to be stored.

    `body` is the stored bytes (compressed where sysFlag 0x1 says so) and is not given for batches, whose
    `items` are messages in their wire form. `delay_level` above 0 is the property DELAY; `multi_dispatch`
    the property INNER_MULTI_DISPATCH. `filter_bit_map` goes to the consume queue's ext unit where the store
    has these. Transaction and IPv6 bits need not be in `sys_flag`. Timestamps in ms.
    """

    topic: str
    body: bytes = b""
    store_timestamp: int = 0
    queue_id: int = 0
    properties: Properties = field(default_factory=dict)
    kind: Kind = Kind.NORMAL
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: Host = DEFAULT_BORN_HOST
    store_host: Host = DEFAULT_STORE_HOST
    items: tuple[InnerItem, ...] = ()
    delay_level: int = 0
    multi_dispatch: tuple[str, ...] = ()
    filter_bit_map: bytes = b""


@dataclass(frozen=True, slots=True)
class Restart:
    """In the place of a message: the broker stops and starts again here.

    After a kill the index files that the checkpoint does not vouch for are deleted and the records from
    `scan_from` (a physical offset; None: where the checkpoint leads the broker) are dispatched again; after
    an orderly stop the version's own rule says which records are (reference 4.8, 6.3 to 6.5).
    """

    killed: bool = False
    scan_from: int | None = None


@dataclass(frozen=True, slots=True)
class Expiry:
    """In the place of a message: the broker deletes its oldest files here.

    The first `file_count` commit log files go (never the last one), then what of consume queues and index
    files lies wholly before the new beginning. `whole_queues` also removes queues of which nothing is left
    in the log; their numbering restarts at 0 (reference 3.5, 4.8, 6.7).
    """

    file_count: int
    whole_queues: bool = False


Event = OutgoingMessage | Expiry | Restart


def op_message(
    half_queue_offsets: Iterable[int], store_timestamp: int, *, several: bool = False, queue_id: int = 0
) -> OutgoingMessage:
    """The op message that says that half messages are done (4.3.0+).

    `several` is the form of 5.1.0+: every offset is followed by a comma.
    """
    numbers = [str(offset) for offset in half_queue_offsets]
    if not numbers or (len(numbers) > 1 and not several):
        raise MessageError(f"an op message for {len(numbers)} half messages")
    body = "".join(f"{number}," for number in numbers) if several else numbers[0]
    return OutgoingMessage(
        props.OP_TOPIC, body.encode(), store_timestamp, queue_id=queue_id, properties={"TAGS": OP_TAG}
    )


_CRC_START = f"{props.CRC32}{props.NAME_VALUE_SEPARATOR}".encode()


def as_map(properties: Properties, dialect: Dialect) -> dict[str, str | None]:
    """The properties as the broker's map: the last of several equal names wins."""
    if isinstance(properties, bytes):
        return dict(props.parse_properties(properties, dialect.property_parser) or {})
    return dict(properties)


def with_properties(properties: Properties, added: Mapping[str, str], dialect: Dialect) -> Properties:
    """The properties with these set: in place of an equal name, else at the end."""
    if not added:
        return properties
    if isinstance(properties, tuple):
        names = {name for name, _ in properties}
        kept = tuple((name, added.get(name, value)) for name, value in properties)
        return kept + tuple((name, value) for name, value in added.items() if name not in names)
    return {**as_map(properties, dialect), **added}


def without_property(properties: Properties, name: str, dialect: Dialect) -> Properties:
    """The properties without this one; raw bytes that do not have it stay as they are."""
    if name not in as_map(properties, dialect):
        return properties
    if isinstance(properties, tuple):
        return tuple(pair for pair in properties if pair[0] != name)
    kept = as_map(properties, dialect)
    del kept[name]
    return kept


def without_crc(properties: Properties, dialect: Dialect) -> Properties:
    """The properties without a CRC of the record that they are from: raw bytes lose only that."""
    if isinstance(properties, bytes) and properties[-props.PROPERTY_CRC_SIZE :].startswith(_CRC_START):
        return properties[: -props.PROPERTY_CRC_SIZE]
    return without_property(properties, props.CRC32, dialect)


def property_bytes(properties: Properties, dialect: Dialect, capacity: int | None = None) -> bytes:
    """The properties string as this dialect stores it; `capacity` are the HashMap's buckets if not its usual.

    MessageError for names and values that hold a separator (nothing can escape it) and for more than 32767
    bytes. An empty value is written, though most brokers do not read it back.
    """
    if isinstance(properties, bytes):
        return _checked(properties)
    if isinstance(properties, Mapping):
        order = props.java_hash_map_order(properties, capacity or dialect.property_map_capacity)
        pairs = tuple((name, properties[name]) for name in order)
    else:
        pairs = properties
    for name, value in pairs:
        _check_pair(name, value)
    return _checked(
        props.serialize_properties(
            pairs, dialect.trailing_separator, null_as_text=dialect.null_property_as_text
        )
    )


def _check_pair(name: str, value: str | None) -> None:
    if not name:
        raise MessageError("a property without a name")
    for text in (name, value or ""):
        if props.NAME_VALUE_SEPARATOR in text or props.PROPERTY_SEPARATOR in text:
            raise MessageError(f"property {name!r} holds a separator (0x01 or 0x02)")


def _checked(data: bytes) -> bytes:
    if len(data) > props.MAX_PROPERTIES_SIZE:
        raise MessageError(f"properties of {len(data)} bytes: the limit is {props.MAX_PROPERTIES_SIZE:,}")
    return data
