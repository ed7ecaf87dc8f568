"""How the broker's Java code reads and hashes text.

A Java string is a sequence of UTF-16 units; `String.hashCode` runs over these units, not over code points,
and `Math.abs(-2147483648)` stays negative. `new String(bytes, UTF_8)` replaces what is malformed, and
replaces an encoded surrogate (`ED A0..BF xx`) by ONE U+FFFD where Python's decoder gives three.
`Integer.parseInt` takes a sign and any BMP decimal digit, and nothing else. Reference 0.1, 2.5, 4.3.
"""

from __future__ import annotations

import re
import struct

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_SURROGATE = re.compile("[\ud800-\udfff]")


def int32(value: int) -> int:
    """The low 32 bits of `value` as a signed number: what a Java int keeps."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def int64(value: int) -> int:
    """The low 64 bits of `value` as a signed number: what a Java long keeps."""
    return ((value + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


def truncated_quotient(dividend: int, divisor: int) -> int:
    """Java's integer division: truncated toward zero (Python's `//` floors)."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def utf16_units(text: str) -> bytes:
    """The UTF-16 units of `text`, big-endian; lone surrogates are kept as they are."""
    return text.encode("utf-16-be", "surrogatepass")


def utf16_length(text: str) -> int:
    """Java's `String.length()`: a character beyond the BMP counts twice."""
    return len(utf16_units(text)) // 2


def java_hash(text: str) -> int:
    """Java's `String.hashCode()`, a signed 32-bit number."""
    units = utf16_units(text)
    total = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        total = (31 * total + unit) & 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


def java_abs(value: int) -> int:
    """Java's `Math.abs(int)`: the least int is its own absolute value."""
    return value if value == INT32_MIN else abs(value)


TAG_KEY_PREFIX = "T#"
"""In front of tags, where their index entry is made as that of a key (5.4.0+)."""


def index_hash(topic: str, key: str) -> int:
    """The keyHash that an index entry holds for `key` of a record of `topic`: 0 .. 2**31-1."""
    return max(java_abs(java_hash(f"{topic}#{key}")), 0)


def tag_index_hash(topic: str, tags: str) -> int:
    """The keyHash that an index entry holds for the tags of a record of `topic` (5.4.0+): 0 .. 2**31-1."""
    return index_hash(topic, TAG_KEY_PREFIX + tags)


def java_decode(data: bytes) -> str:
    """The text that Java 17 makes of UTF-8 bytes; malformed input becomes U+FFFD, never an error."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def java_encode(text: str) -> bytes:
    """The UTF-8 bytes that Java makes of a text; a lone surrogate becomes `?`."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two surrogates side by side are one character to Java.
        joined = utf16_units(text).decode("utf-16-be", "surrogatepass")
        return _SURROGATE.sub("?", joined).encode()


def _parse_integer(text: str, least: int, most: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java asks Character.digit(char): decimal digits of any script that fit one UTF-16 unit.
    if not digits.isdecimal() or (not digits.isascii() and max(digits) > "\uffff"):
        return None
    significant = (digits if digits.isascii() else "".join(str(int(digit)) for digit in digits)).lstrip("0")
    if len(significant) > 19:
        return None
    value = int(significant or "0")
    if text[0] == "-":
        value = -value
    return value if least <= value <= most else None


def parse_int16(text: str) -> int | None:
    """Java's `Short.parseShort`, None where it throws."""
    return _parse_integer(text, INT16_MIN, INT16_MAX)


def parse_int32(text: str) -> int | None:
    """Java's `Integer.parseInt`, None where it throws."""
    return _parse_integer(text, INT32_MIN, INT32_MAX)


def parse_int64(text: str) -> int | None:
    """Java's `Long.parseLong`, None where it throws."""
    return _parse_integer(text, INT64_MIN, INT64_MAX)


def split_java(text: str, separator: str) -> list[str]:
    """Java's `String.split` on a one-character literal: trailing empty pieces are dropped, others kept."""
    pieces = text.split(separator)
    if len(pieces) > 1:
        while pieces and not pieces[-1]:
            pieces.pop()
    return pieces
