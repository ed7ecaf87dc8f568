"""Columns and rows of answers that are dataclasses: the names are those of their members, as in JSON.

    int      BIGINT, queue_id INT        str, Literal, Enum    STRING
    bool     BOOLEAN                     tuple of texts        ARRAY<STRING>
    Mapping  MAP<STRING, STRING>         None                  NULL

Configs that such rows are made of are read as a broker loads them. One that it cannot load is damage, one
that cannot be read is not: both end the query, or are rows, or nothing, as the options say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.pipeline.views.arrays import Row, printable
from rocketfsck.pipeline.views.damage import UNREADABLE, account
from rocketfsck.pipeline.views.model import WantedRows, ignores
from rocketfsck.reader.configs import load_config
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.lifting import Lifting

Value = TypeVar("Value")

CONFIG = "config"
"""The kind of damage that is a config which no broker loads."""

WORDS = pa.list_(pa.field("element", pa.string()))
TABLE = pa.map_(pa.string(), pa.string())
_INT = {"queue_id": pa.int32()}


def fields_of(kind: type, *left_out: str) -> list[pa.Field]:
    """The columns of a dataclass's members, in their order."""
    hints = get_type_hints(kind)
    names = [member.name for member in fields(kind) if member.name not in left_out]
    return [pa.field(name, _type_of(name, hints[name])) for name in names]


def _type_of(name: str, hint: Any) -> pa.DataType:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (found,) = [part for part in parts if part is not NoneType]
    if found is bool:
        return pa.bool_()
    if found is int:
        return _INT.get(name, pa.int64())
    origin = get_origin(found)
    if origin is tuple:
        return WORDS
    return TABLE if origin is not None and issubclass(origin, Mapping) else pa.string()


def row_of(value: Any, **more: Any) -> Row:
    """The members of a dataclass, and more, as values of the columns."""
    found = {member.name: getattr(value, member.name) for member in fields(value)} | more
    return {name: _plain(item) for name, item in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        return [printable(item) for item in value]
    if isinstance(value, Mapping):
        return [(printable(name), printable(item)) for name, item in value.items()]
    return value


@dataclass(slots=True)
class ReadConfigs:
    """The configs of one store, and a row for each that does not say what it should: `problems`."""

    store: Store
    wanted: WantedRows
    problems: list[Row] = field(default_factory=list)

    def value(self, name: str, decode: Callable[[bytes], Value]) -> tuple[Value | None, str | None]:
        """What a broker goes by, and the file that says it; (None, None) where nothing does.

        Raises StoreError for a file that cannot be read or loaded, as the options have it.
        """
        found = load_config(self.store, name, decode)
        place = None if found.file is None else printable(found.file.relative)
        if found.error is None or found.file is None:
            return found.value, place
        if isinstance(found.error, FormatError):
            error = StoreError(
                f"no broker loads this config: {found.error}",
                path=found.file.location,
                offset=found.error.offset,
            )
            self.damaged(error, found.file.relative, str(found.error))
        else:
            self.unreadable(found.error, found.file.relative)
        return None, None

    def damaged(self, error: StoreError, file: str, reason: str) -> None:
        """Take down damage, which ends a query of the mode FAILFAST with the error."""
        if self.wanted.mode == "FAILFAST":
            raise error
        if self.wanted.mode == "PERMISSIVE":
            self._put(CONFIG, reason, file, error)

    def unreadable(self, error: StoreError, file: str) -> None:
        """Take down what could not be read, which ends the query unless it is to go on without."""
        if not ignores(self.wanted, error):
            raise error
        if self.wanted.on_unreadable == "row":
            self._put(UNREADABLE, str(error), file, error)

    def databases(self, lifting: Lifting) -> None:
        """Take down what the databases do not say."""
        for name, error in sorted(lifting.failed.items()):
            self.unreadable(error, name)
        for name, odd in sorted(lifting.odd.items()):
            for row in odd.first.values():
                reason = f"row {row.key!r} of the family {row.family}: {row.reason}"
                self.damaged(StoreError(reason, path=str(self.store.root / name)), name, reason)

    def _put(self, kind: str, reason: str, file: str, error: StoreError) -> None:
        said = account(kind, printable(reason), file, start=error.offset or 0)
        self.problems.append({"file": printable(file), self.wanted.corrupt_column: said})
