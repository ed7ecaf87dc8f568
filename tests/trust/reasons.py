"""Why no rule sees a bit: by field, and by store and field where a store has reasons of its own."""

from __future__ import annotations

from collections.abc import Mapping

from tests.trust.documents import Flips

_HOST = (
    "an address is any four bytes; of the port's four bytes the upper two must be zero. Nothing else in a "
    "store repeats the host of a message"
)
_CLOCK = (
    "the clock of the broker: a time that lies a little before or after its neighbours is normal, and a "
    "jump of a clock is a note"
)
_CHECKPOINT = (
    "a time before the newest message makes a recovery read more of the log, and is at most a note; a time "
    "after the newest message is seen"
)
_UNUSED = (
    "brokers of this version leave these bytes alone: what a newer broker wrote there before a downgrade "
    "stays"
)

REASONS: Mapping[str, str] = {
    "record.flag": "the application's own number: brokers keep it and never read it, and nothing else "
    "repeats it",
    "record.sysFlag": "bit 1 says that a message may have several tags, which nothing else in a store "
    "depends on; with the others flipped, the record could be one of another kind with the same properties",
    "record.bornTimestamp": "the clock of the producer: any time that is not negative can be right",
    "record.bornHost": _HOST,
    "record.storeHost": _HOST,
    "record.storeTimestamp": _CLOCK + "; the index knows it to the second",
    "record.reconsumeTimes": "how often a consumer tried: any number up to 65,535 can be right",
    "record.properties": "names and values that neither queues nor index repeat, such as the real topic of a "
    "message that waits: without a property CRC only their form is checked",
    "consumequeue_ext_unit.filterBitMap": "bits of a filter for subscriptions, which the store does not hold",
    "checkpoint.physicMsgTimestamp": _CHECKPOINT,
    "checkpoint.logicsMsgTimestamp": _CHECKPOINT,
    "checkpoint.indexMsgTimestamp": _CHECKPOINT,
    "checkpoint.masterFlushedOffset": "the place that another broker reached: this store does not know it",
    "checkpoint.confirmPhyOffset": "with one of these bits set the value is where a record starts, and "
    "that could be the confirmed place",
    "checkpoint.logicsPhysicalOffset": "with one of these bits set the value is where a record starts: a "
    "newer broker could have written that, and this field is not one of this version",
}
"""By `layout.field`."""

OWN: Mapping[tuple[str, str], str] = {
    ("propcrc-5.3.3", "record.properties"): (
        "the name of the checksum's own property, which the checksum does not cover: with another name there "
        "is no checksum, as in a record of a broker that writes none"
    ),
    ("trans-4.9.8", "record.storeTimestamp"): (
        _CLOCK + ". This record is the first of its index file, where an earlier time, or one that the index "
        "cannot hold, gives the same entry"
    ),
    ("plain-4.4.0", "checkpoint.confirmPhyOffset"): _UNUSED,
    ("plain-4.4.0", "checkpoint.masterFlushedOffset"): _UNUSED,
}
"""By store and `layout.field`, where it is not the general reason."""


def reason(flips: Flips) -> str:
    """Why bits of a field are unseen. Raises KeyError where there is no reason."""
    name = f"{flips.layout}.{flips.field}"
    return OWN.get((flips.store, name)) or REASONS[name]
