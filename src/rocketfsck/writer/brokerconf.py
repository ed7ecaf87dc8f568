"""The options that a broker.conf states: sizes, features and limits of the store that it would write.

Reference, appendix B. Settings that shape nothing on disk are passed over, as are those that a version does
not have (the version's own rules decide then, when the options are checked).
"""

from __future__ import annotations

from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.formats.delay import parse_delay_levels
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.formats.javatext import parse_int32
from rocketfsck.store.geometry import read_geometry
from rocketfsck.store.model import Settings

ONE_SETTING_SINCE = "5.3.2"
"""From here on enableLmq alone has messages dispatched to several queues."""


def options_of_settings(settings: Settings, version: str) -> dict[str, Any]:
    """The fields of WriteOptions that the settings of a broker of this version say. UsageError for a value
    that is none."""
    geometry = read_geometry(settings, {}, ())
    for name, note in geometry.notes.items():
        if geometry.source(name) != "given":
            raise UsageError(f"{settings.path}: {name}: {note}")
    version_known = dialect_for(version).version
    lmq, dispatch = settings.flag("enableLmq", False), settings.flag("enableMultiDispatch", False)
    options: dict[str, Any] = {
        "geometry": geometry,
        "consumequeue_ext": settings.flag("enableConsumeQueueExt", False),
        "multi_dispatch": lmq and (dispatch or version_known.since(ONE_SETTING_SINCE)),
        "append_property_crc": settings.flag("enabledAppendPropCRC", False),
        "message_index": settings.flag("messageIndexEnable", True),
        "sync_flush": (settings.get("flushDiskType") or "").strip() == "SYNC_FLUSH",
    }
    levels = settings.get("messageDelayLevel")
    if levels is not None:
        options["delay_levels"] = parse_delay_levels(levels)
    largest = settings.get("maxMessageSize")
    if largest is not None:
        size = parse_int32(largest.strip())
        if size is None or size <= 0:
            raise UsageError(f"{settings.path}: maxMessageSize is {largest[:40]!r}, not a positive number")
        options["max_message_size"] = size
    return options
