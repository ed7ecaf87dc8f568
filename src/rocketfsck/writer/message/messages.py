"""What is handed to the writer: messages as a producer or a broker's own services would put them.

A message says what the commit log cannot derive: topic, queue, body as stored, properties, hosts and both
timestamps. What a broker derives on the way (queue offset, physical offset, CRC, the rewriting of delayed and
half messages, INNER_BASE, multi-dispatch offsets) the writer derives too. Reference 2.1 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from rocketfsck.errors import UsageError
from rocketfsck.formats.host import Host
from rocketfsck.formats.innerbatch import InnerItem
from rocketfsck.formats.record import GivenNumbers

Pairs = tuple[tuple[str, str | None], ...]
Properties = Mapping[str, str | None] | Pairs | bytes
"""A mapping is written in the order of the broker's HashMap, pairs in the order given, bytes as they are."""

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
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
        OP_TOPIC, body.encode(), store_timestamp, queue_id=queue_id, properties={"TAGS": OP_TAG}
    )
