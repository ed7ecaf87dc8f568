"""Where the rows of an export go: one directory a topic and day, named as Hive, Spark and Arrow read them.

    topic=<escaped>/date=2023-11-14/part-<task>-<number>.parquet

A topic is hostile: whatever could leave its directory, act on a terminal or mean something to a reader of
paths is `%XX`, as Hive and Spark escape it. What is beyond ASCII stays as it is, since those do not decode
it; where a table's own log has the values, and nobody decodes names, it is escaped, too. A value that is too
long for the name of a directory is cut and gets its SHA-256; the manifest, and the footers of the files, have
it whole. The empty text is null, as it is for Hive.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

DAY_MS = 86_400_000
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
MAX_VALUE_SIZE = 255 - len("prepared_transaction_offset=")
"""Bytes of a value in a directory's name: names have 255 on every file system that is likely."""

CUT_SIZE = 120

_LAST_DAY = 100_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One partition: the values of the partition columns as text, in their order; None is null."""

    values: tuple[str | None, ...]

    def folder(self, names: tuple[str, ...], *, plain: bool = False) -> tuple[str, ...]:
        """The directories that lead to it; `plain`: of ASCII alone."""
        return tuple(
            f"{name}={escape(value, plain=plain)}" for name, value in zip(names, self.values, strict=True)
        )

    @property
    def sort_key(self) -> tuple[tuple[bool, str], ...]:
        """Nulls last."""
        return tuple((value is None, value or "") for value in self.values)


def escape(value: str | None, *, plain: bool = False) -> str:
    """A partition value as a part of a path; `NULL_NAME` for null and nothing."""
    if not value:
        return NULL_NAME
    if value == NULL_NAME:
        return f"%5F{NULL_NAME[1:]}"
    escaped = "".join(_escaped(character, plain) for character in value)
    if len(escaped.encode()) <= MAX_VALUE_SIZE:
        return escaped
    start = re.sub("%.?$", "", "".join(_escaped(character, True) for character in value)[:CUT_SIZE])
    return f"{start}-{hashlib.sha256(value.encode()).hexdigest()}"


def _escaped(character: str, plain: bool) -> str:
    if character in _PLAIN or (ord(character) >= 0x80 and not plain):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def days_of(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The days (since 1970, UTC) of times in ms; -1 where a time is of no date."""
    days = timestamps // DAY_MS
    days[(days < 0) | (days > _LAST_DAY)] = -1
    return days


def date_text(day: int) -> str | None:
    """A day as `2023-11-14`; None for -1."""
    return None if day < 0 else (_EPOCH + timedelta(days=day)).date().isoformat()
