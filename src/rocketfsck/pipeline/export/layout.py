"""Where the rows of an export go: one directory a topic and day, named as Hive, Spark and Arrow read them.

    topic=<escaped>/date=2023-11-14/part-<task>-<number>.parquet

A topic is hostile: whatever could leave its directory, act on a terminal or mean something to a reader of
paths is `%XX`, as Hive and Spark escape it (Spark's `escapePathName`, and a few characters more). What is
beyond ASCII stays as it is, since those do not decode it; where a table's own log has the values, and nobody
decodes names, it is escaped, too. The empty text is null, as it is for Hive.

A file system has 255 bytes for a name. Where `topic=` and the escaped value are longer, the directory has
the first characters of the value and its SHA-256, and so has a value that looks like that, or like null: two
values never have one directory. Readers take such a name for the value, so the files themselves have the
whole value, too: the column `topic_text` (`text_name`), in every file of every partition. ADR 0018.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DAY_MS = 86_400_000
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
NAME_SIZE = 255
"""Bytes of the name of a directory, on every file system that is likely."""

_LAST_DAY = 100_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_DIGEST = re.compile(r"-[0-9a-f]{64}\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One partition: the values of the partition columns as text, in their order; None is null."""

    values: tuple[str | None, ...]

    def folder(self, names: tuple[str, ...], *, plain: bool = False) -> tuple[str, ...]:
        """The directories that lead to it; `plain`: of ASCII alone."""
        return tuple(
            f"{name}={escape(value, NAME_SIZE - len(name) - 1, plain=plain)}"
            for name, value in zip(names, self.values, strict=True)
        )

    @property
    def sort_key(self) -> tuple[tuple[bool, str], ...]:
        """Nulls last."""
        return tuple((value is None, value or "") for value in self.values)


def text_name(name: str) -> str:
    """The column of the files that has the whole values of the partition column `name`."""
    return f"{name}_text"


def file_columns(schema: pa.Schema, partition: Sequence[str], table_format: str) -> pa.Schema:
    """The columns of the files of a table with the columns `schema`.

    Iceberg has all in the files; the values of Delta's partition are in its log, and those of plain Parquet
    in the names of directories, and as text in the files.
    """
    if table_format == "iceberg":
        return pa.schema(list(schema))
    columns = [item for item in schema if item.name not in partition]
    if table_format == "parquet":
        columns += [
            pa.field(text_name(name), schema.field(name).type)
            for name in partition
            if pa.types.is_string(schema.field(name).type)
        ]
    return pa.schema(columns)


def escape(value: str | None, size: int, *, plain: bool = False) -> str:
    """A partition value as a part of a path, of at most `size` (70 or more) bytes; NULL_NAME for nothing."""
    if not value:
        return NULL_NAME
    escaped = [_escaped(character, plain) for character in value]
    odd = value == NULL_NAME or _DIGEST.search(value)
    if not odd and sum(len(part.encode()) for part in escaped) <= size:
        return "".join(escaped)
    digest = f"-{hashlib.sha256(value.encode()).hexdigest()}"
    ends = accumulate((len(part.encode()) for part in escaped), initial=len(digest))
    count = sum(end <= size for end in ends) - 1
    return "".join(escaped[:count]) + digest


def _escaped(character: str, plain: bool) -> str:
    if character in _PLAIN or (ord(character) >= 0x80 and not plain):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def days_of(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The days (since 1970, UTC) of times in ms; -1 for a time that has no date."""
    days = timestamps // DAY_MS
    days[(days < 0) | (days > _LAST_DAY)] = -1
    return days


def date_text(day: int) -> str | None:
    """A day as `2023-11-14`; None for -1."""
    return None if day < 0 else (_EPOCH + timedelta(days=day)).date().isoformat()
