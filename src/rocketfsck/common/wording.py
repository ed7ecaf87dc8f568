"""Numbers in sentences: `1 unit`, `12,345 units`, `queue offset 29`, `queue offsets 29 to 31`.

Templates name values and say how each is written:

    {size}                  as it is; names of counts and sizes (`size`, `…_count`, `…_size`) with separators
    {ahead:,}               with separators
    {unit_count:unit}       with separators and a noun: `1 unit`, `2 units`
    {first..last}           a range: `29 to 31`, or `29` where both ends are the same
    {first..last:offset}    a range with a noun: `offset 29`, `offsets 29 to 31`
    {unit_count?is|are}     the first word where the number is 1, else the second

The page of style, docs/style.md, says what goes into the sentences around them.

Sizes, durations and points in time as people write them; the one place that reads and writes them.

size     := digits [unit]            unit := B | K | KiB | KB | M | …   KB: 1,000; K, KiB: 1,024
duration := number [s|m|min|h|d]     seconds without a unit
time     := ["-"] digits | ISO 8601  milliseconds, or a date and time, UTC where it names no zone
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(r"(\d{1,19})\s*(?:([KMGT])(i?B)?|B)?", re.ASCII | re.IGNORECASE)
_EXPONENTS = {"K": 1, "M": 2, "G": 3, "T": 4}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|min)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_MILLISECONDS = re.compile(r"-?\d{1,19}", re.ASCII)


def byte_size(count: int) -> str:
    """`1536` as `1.5 KiB`."""
    amount = float(count)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


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


def duration(seconds: float) -> str:
    """`0.3 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


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


_FIRST_YEAR_MS = -62135596800000
_LAST_YEAR_MS = 253402300800000


def timestamp(value: int) -> str:
    """Milliseconds since 1970 as `2023-03-01T08:00:00.123Z`; what no calendar holds stays a number."""
    if not _FIRST_YEAR_MS <= value < _LAST_YEAR_MS:
        return f"{value} ms"
    seconds, millis = divmod(value, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).rjust(19, "0") + f".{millis:03d}Z"


_NAME = r"[a-z_0-9]+(?:\.[a-z_0-9]+)?"
PLACE = re.compile(
    rf"\{{(?P<name>{_NAME})(?:\.\.(?P<last>{_NAME}))?"
    r"(?:\?(?P<one>[^{}|]*)\|(?P<many>[^{}|]*)|:(?P<noun>[^{}?|]+))?\}"
)
"""A place in a template: the names of its values, and how they are written."""

_COUNTS = re.compile(r"(.*[._])?(size|count)")
_SEPARATED = ","
NAMES_SHOWN = 5
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}

Value = int | str | bool | None


def plural_of(noun: str) -> str:
    """`unit` as `units`, `index entry` as `index entries`, `hash` as `hashes`."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """`1 file`, `2 files`, `12,345 entries`."""
    return f"{number:,} {noun if number == 1 else plural or plural_of(noun)}"


def first_names(names: Sequence[str]) -> str:
    """`a, b`, and the first NAMES_SHOWN of more: `a, b, c, d, e, ...`."""
    return ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")


def fill_template(template: str, value_of: Callable[[str], Value], shown: Callable[[str, Value], str]) -> str:
    """The template with its values; `shown` writes those that have neither separators nor a noun."""

    def written(place: re.Match[str]) -> str:
        name, last, noun = place["name"], place["last"], place["noun"]
        value = value_of(name)
        if place["many"] is not None:
            return place["one" if _is_one(value) else "many"]
        if last is None:
            return _counted(name, value, noun, shown)
        end = value_of(last)
        if value == end:
            text = shown(name, value)
            return f"{noun} {text}" if noun else text
        text = f"{shown(name, value)} to {shown(last, end)}"
        return f"{plural_of(noun)} {text}" if noun else text

    return PLACE.sub(written, template)


def fill_numbers(template: str, **numbers: int) -> str:
    """The template with these numbers; those that are neither counts nor have a noun, without separators."""
    return fill_template(template, numbers.__getitem__, lambda _, value: str(value))


def plain_template(template: str) -> str:
    """The template for readers: names of values in braces, everything else in the plural."""

    def written(place: re.Match[str]) -> str:
        name, last, noun = place["name"], place["last"], place["noun"]
        if place["many"] is not None:
            return place["many"]
        noun = None if noun in (None, _SEPARATED) else plural_of(noun)
        if last is not None:
            return f"{f'{noun} ' if noun else ''}{{{name}}} to {{{last}}}"
        return f"{{{name}}} {noun}" if noun else f"{{{name}}}"

    return PLACE.sub(written, template)


def _is_one(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 1


def _counted(name: str, value: Value, noun: str | None, shown: Callable[[str, Value], str]) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        text = shown(name, value)
        return text if noun in (None, _SEPARATED) else f"{text} {plural_of(noun)}"
    if noun is not None:
        return f"{value:,}" if noun == _SEPARATED else count_of(value, noun)
    return f"{value:,}" if _COUNTS.fullmatch(name) else shown(name, value)


def visible(text: str | bytes, *, keep_backslash: bool = False) -> str:
    """`text` with every unprintable character as an escape; bytes are taken as UTF-8, others as `\\xNN`.

    `keep_backslash` leaves backslashes single: for the tool's own sentences, not for names.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable() and ("\\" not in text or keep_backslash):
        return text
    return "".join(
        character if character.isprintable() and (character != "\\" or keep_backslash) else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as os.fsdecode and surrogateescape give it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
