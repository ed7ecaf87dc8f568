"""Why a scan of records stops."""

from __future__ import annotations

from enum import IntEnum


class Stop(IntEnum):
    """Why a run of records ended; positive ones are structural damage at the position returned."""

    LIMIT = 0  # the end of the bytes given was reached exactly
    BATCH_FULL = -1
    NEED_BYTES = -2  # the record at this position continues beyond the bytes given (but inside the file)
    BLANK = -3  # a BLANK header is at this position
    ZERO = -4  # totalSize and magic are both 0
    MAGIC = 1  # not a message magic
    SIZE = 2  # totalSize below 91 or past the end of the file
    LENGTHS = 3  # the lengths do not add up to totalSize
    BODY_LENGTH = 4  # the body runs past the record
    TOPIC_LENGTH = 5  # the topic length is negative or runs past the record
    PROPERTIES_LENGTH = 6  # the properties run past the record
    SHORT = 7  # fewer bytes left in the file than a header takes, and they are not all zero
