"""Sizes, durations and points in time as people write them; the one place that reads them.

size     := digits [unit]            unit := B | K | KiB | KB | M | …   KB: 1,000; K, KiB: 1,024
duration := number [s|m|min|h|d]     seconds without a unit
time     := ["-"] digits | ISO 8601  milliseconds, or a date and time, UTC where it names no zone
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SIZE = re.compile(r"(\d{1,19})\s*(?:([KMGT])(i?B)?|B)?", re.ASCII | re.IGNORECASE)
_EXPONENTS = {"K": 1, "M": 2, "G": 3, "T": 4}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|min)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_MILLISECONDS = re.compile(r"-?\d{1,19}", re.ASCII)


def parse_size(text: str) -> int:
    """The bytes that a size says: `4096`, `64KiB`, `64K`, `4GiB`, or `10MB` for powers of ten.

    ValueError for anything else.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size like 4096, 64KiB or 4GiB")
    unit, ending = match[2], match[3]
    base = 1000 if ending is not None and len(ending) == 1 else 1024
    factor: int = base ** (_EXPONENTS[unit.upper()] if unit else 0)
    return int(match[1]) * factor


def parse_duration(text: str) -> float:
    """The seconds that a duration says: `90`, `1.5s`, `5m`, `2h` or `7d`. ValueError for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration like 90, 90s, 5m, 2h or 7d")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def parse_time(text: str) -> int:
    """The time in ms since 1970 that a text says: `1715934600000` or `2024-05-17T08:30:00`.

    ValueError for anything else.
    """
    said = text.strip()
    return int(said) if _MILLISECONDS.fullmatch(said) else parse_date(said)


def parse_date(text: str) -> int:
    """The time in ms since 1970 of an ISO 8601 date and time, UTC where it names no zone. Else ValueError."""
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither milliseconds nor a date like 2024-05-17T08:30:00") from None
