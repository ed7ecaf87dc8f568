"""Plans as JSON, and back. Reading is strict: a plan says exactly what it must, or it is refused.

    {"kind": "rocketfsck.plan", "schema_version": 3, "store": {...}, "level": ..., "actions": [...], ...}

Every member of the dataclasses of `repair.plan.model` is there under its name, and nothing else. Text whose
bytes are not UTF-8 is `<name>_b64`, base64 of the bytes; text with other lone surrogates is `<name>_utf16`,
base64 of its UTF-16BE; in lists and mappings a text of either kind is an object of one such member, without
a name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.plan.model import SCHEMA_VERSION, How, Plan
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.rules.catalog import RULES, printable
from rocketfsck.verify.rules.rule import LEVELS

KIND = "rocketfsck.plan"
MAX_PLAN_SIZE = 1 << 28
_BYTES, _UNITS = "_b64", "_utf16"
_INT_LIMIT = 1 << 63
_WORDS: Mapping[Any, str] = {int: "a 64-bit integer", str: "a text", bool: "true or false"}


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values; `plan_from_json` gives an equal plan back."""
    return {"kind": KIND, **to_members(plan)}


def plan_text(plan: Plan) -> str:
    """The plan as a JSON text of printable ASCII, with line breaks, that compares well line by line."""
    return json.dumps(plan_to_json(plan), ensure_ascii=True, indent=2).replace("\x7f", "\\u007f") + "\n"


def plan_digest(plan: Plan) -> str:
    """Hex SHA-256 of the plan's content, whatever the JSON text looked like."""
    text = json.dumps(plan_to_json(plan), ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def plan_from_json(document: Any) -> Plan:
    """The plan that `plan_to_json` wrote; raises UsageError with the path of the member for anything else."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"not a plan: there is no member kind with the value {KIND!r}")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise UsageError(f"a plan of schema version {_shown(version)}; this program reads {SCHEMA_VERSION}")
    plan = _dataclass(Plan, {name: value for name, value in document.items() if name != "kind"}, "")
    assert isinstance(plan, Plan)
    if plan.level not in LEVELS:
        raise UsageError(f"plan: level is {_shown(plan.level)}, not one of {', '.join(LEVELS)}")
    for number, action in enumerate(plan.actions):
        for name in ("preconditions", "sources"):
            for index, extent in enumerate(getattr(action, name)):
                if extent.start < 0 or (extent.end is not None and extent.end < extent.start):
                    raise UsageError(f"plan: actions[{number}].{name}[{index}]: no range of bytes")
        for index, extent in enumerate(action.sources):
            if not extent.file.startswith("/") or extent.end is None or extent.sha256 is None:
                raise UsageError(f"plan: actions[{number}].sources[{index}]: no bytes of a file elsewhere")
        for index, item in enumerate(action.assumptions):
            if item.how not in typing.get_args(How):
                raise UsageError(f"plan: actions[{number}].assumptions[{index}].how is {_shown(item.how)}")
        if action.write_size < 0:
            raise UsageError(f"plan: actions[{number}].write_size is negative")
    unknown = sorted({*plan.counts, *(item.rule for item in plan.unanswered)} - set(RULES))
    if unknown:
        raise UsageError(f"plan: there is no rule {printable(unknown[0])!r}")
    return plan


def read_plan(path: Path) -> Plan:
    """The plan in a file. UsageError if it holds none, StoreError if it cannot be read."""
    return parse_plan(read_whole(path, MAX_PLAN_SIZE), str(path))


def parse_plan(data: bytes, name: str = "plan") -> Plan:
    """The plan in a JSON text; raises UsageError."""
    return plan_from_json(parse_document(data, name))


def parse_document(data: bytes, name: str) -> Any:
    """JSON without what JSON does not have: members twice, NaN, bytes that are no UTF-8. UsageError."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{printable(name)} is not JSON: {printable(str(error))}") from error


def read_document(path: Path) -> Any:
    """The JSON in a file, as `parse_document` reads it; StoreError if the file cannot be read."""
    try:
        return parse_document(read_whole(path, MAX_PLAN_SIZE), str(path))
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def to_members(value: Any) -> dict[str, Any]:
    """A dataclass of plain values as JSON values."""
    members: dict[str, Any] = {}
    for item in fields(value):
        inner = getattr(value, item.name)
        if isinstance(inner, str):
            suffix, text = encode_text(inner)
            members[item.name + suffix] = text
        else:
            members[item.name] = _plain(inner)
    return members


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_members(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        suffix, text = encode_text(value)
        return {suffix: text} if suffix else text
    return value


def encode_text(text: str) -> tuple[str, str]:
    """(suffix of the member's name, its value) for a text that may be no UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return "", text
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raw = None
    if raw is not None and os.fsdecode(raw) == text:
        return _BYTES, base64.b64encode(raw).decode("ascii")
    return _UNITS, base64.b64encode(text.encode("utf-16-be", "surrogatepass")).decode("ascii")


def decode_text(suffix: str, value: Any) -> str:
    """The text that `encode_text` was given; raises ValueError for what it did not give."""
    if not isinstance(value, str):
        raise ValueError("not a text")
    if suffix == "":
        value.encode("utf-8")  # lone surrogates have a form of their own
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    text = os.fsdecode(raw) if suffix == _BYTES else raw.decode("utf-16-be", "surrogatepass")
    if encode_text(text) != (suffix, value):
        raise ValueError("not in its one form")
    return text


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def from_members(kind: type, document: Any) -> Any:
    """The dataclass that `to_members` was given; raises UsageError."""
    return _dataclass(kind, document, "")


def _dataclass(kind: type, document: Any, path: str) -> Any:
    if not isinstance(document, dict):
        raise _wrong(path, "an object", document)
    hints, values, left = _hints(kind), {}, dict(document)
    for item in fields(kind):
        place = f"{path}.{item.name}" if path else item.name
        found = [suffix for suffix in ("", _BYTES, _UNITS) if item.name + suffix in left]
        if len(found) != 1:
            raise UsageError(f"plan: {place} is {'there twice' if found else 'missing'}")
        value = left.pop(item.name + found[0])
        hint = hints[item.name]
        if found[0] and hint not in (str, str | None, int | str):
            raise UsageError(f"plan: {place}{found[0]} is no member of a plan")
        values[item.name] = _text(value, found[0], place) if found[0] else _value(hint, value, place)
    if left:
        raise UsageError(f"plan: {path + '.' if path else ''}{printable(min(left))} is no member of a plan")
    return kind(**values)


def _value(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        kinds = typing.get_args(hint)
        if value is None and type(None) in kinds:
            return None
        for kind in kinds:
            if _fits(kind, value):
                return _value(kind, value, path)
        names = [_WORDS[kind] for kind in kinds if kind in _WORDS]
        raise _wrong(path, " or ".join([*names, "null"]), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        kind = typing.get_args(hint)[0]
        return tuple(_value(kind, item, f"{path}[{number}]") for number, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        kind = typing.get_args(hint)[1]
        return {
            _text(name, "", path): _value(kind, item, f"{path}.{printable(name)}")
            for name, item in value.items()
        }
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _dataclass(hint, value, path)
    if not _fits(hint, value):
        raise _wrong(path, _WORDS[hint], value)
    if hint is str:
        suffix, text = next(iter(value.items())) if isinstance(value, dict) else ("", value)
        return _text(text, suffix, path)
    return value


def _fits(kind: Any, value: Any) -> bool:
    """Whether a JSON value may be of this kind; a truth value is no number."""
    if is_dataclass(kind):
        return isinstance(value, dict)
    if kind is str:
        return isinstance(value, str) or (
            isinstance(value, dict) and len(value) == 1 and set(value) <= {_BYTES, _UNITS}
        )
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -_INT_LIMIT <= value < _INT_LIMIT
    return kind is bool and isinstance(value, bool)


def _text(value: Any, suffix: str, path: str) -> str:
    try:
        return decode_text(suffix, value)
    except ValueError as error:
        raise UsageError(f"plan: {path} is no text: {printable(str(error))}") from error


def _wrong(path: str, wanted: str, value: Any) -> UsageError:
    return UsageError(f"plan: {path or 'the plan'} is {_shown(value)}, not {wanted}")


def _shown(value: Any) -> str:
    text = printable(json.dumps(value, ensure_ascii=True))
    return text if len(text) <= 40 else text[:40] + "..."
