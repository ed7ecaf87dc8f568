"""Light queues (LMQ) of which a broker gave numbers away without writing units.

    INNER_MULTI_DISPATCH := name (',' name)*      INNER_MULTI_QUEUE_OFFSET := offset? (',' offset?)*

From 5.0.0 on a broker takes a number for each name that begins with %LMQ% and leaves the places of all
others empty. Java's split drops empty places at the end, so that the lists have different lengths: then the
broker writes no unit for any name, and the numbers that it took are gone. The queue's next unit comes right
after the last one, before the place of its number, until a start counts again. Reference 2.13, 3.4.
"""

from __future__ import annotations

from rocketfsck.formats.javatext import java_decode, parse_int64, split_java
from rocketfsck.formats.properties import LMQ_PREFIX, MULTI_DISPATCH_SEPARATOR


def is_light(topic: bytes) -> bool:
    """Whether a queue is a light one by its name."""
    return topic.startswith(LMQ_PREFIX.encode())


def skipped_names(names: bytes, offsets: bytes) -> list[str] | None:
    """The light queues whose numbers a broker gave away for a record with these lists.

    None if no broker writes such lists.
    """
    listed = split_java(java_decode(names), MULTI_DISPATCH_SEPARATOR)
    places = java_decode(offsets).split(MULTI_DISPATCH_SEPARATOR)
    if len(listed) != len(places):
        return None
    light = [name for name in listed if name.startswith(LMQ_PREFIX)]
    for name, place in zip(listed, places, strict=True):
        if name.startswith(LMQ_PREFIX) != (parse_int64(place) is not None) or (place and name not in light):
            return None
    return light


def lists_in(properties: bytes) -> tuple[bytes, bytes]:
    """The lists of queues and of offsets in a record's properties, as they are; empty where there is none."""
    names, offsets = (
        properties.partition(name)[2].split(b"\x02", 1)[0]
        for name in (b"INNER_MULTI_DISPATCH\x01", b"INNER_MULTI_QUEUE_OFFSET\x01")
    )
    return names, offsets


def skipped_by(properties: bytes) -> list[str] | None:
    """`skipped_names` of the lists in a record's properties."""
    return skipped_names(*lists_in(properties))
