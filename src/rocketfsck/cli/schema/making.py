"""From types to JSON Schema (draft 2020-12), as documents are written: see `common.documents`.

A member that is text may be `<name>_b64` or `<name>_utf16` instead, since names in a store may be no UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, UnsetType

from rocketfsck.cli.output import Column
from rocketfsck.common.documents import BYTES, FLAT, LEFT_OUT, UNITS, UNSAID
from rocketfsck.verify.finding import Where

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COLUMN_KINDS: dict[str, Any] = {
    "int": int | None,
    "float": float | None,
    "bool": bool | None,
    "text": str | None,
    "name": str | None,
    "map": dict[str, str] | None,
    "blob": str | None,
    "json": Any,
}
_BASE64 = {"type": "string", "contentEncoding": "base64"}
_ODD_TEXT = {
    "anyOf": [
        {"type": "string"},
        *(
            {"type": "object", "properties": {end: _BASE64}, "required": [end], "additionalProperties": False}
            for end in (BYTES, UNITS)
        ),
    ]
}


class _Choice(NamedTuple):
    by: str
    member: str
    among: Mapping[str, type]


_CHOICES: dict[str, _Choice] = {}
"""The types of which the member `by` says which type, among some, the other `member` has."""


def members_of(kind: type) -> dict[str, Any]:
    """The members that the document of a dataclass has, with their types: see `common.documents`."""
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, Any] = {}
    for item in (item for item in fields(kind) if item.metadata != UNSAID):
        parts = [part for part in get_args(hints[item.name]) if part is not NoneType]
        if item.metadata == LEFT_OUT:
            found[item.name] = maybe(reduce(or_, parts))
        elif item.metadata == FLAT:
            (inner,) = parts or [hints[item.name]]
            more = members_of(inner) if isinstance(inner, type) else {}  # a mapping has names of its own
            found |= {name: maybe(part) if parts else part for name, part in more.items()}
        else:
            found[item.name.removesuffix("_")] = hints[item.name]
    return found


@cache
def written(kind: Any) -> Any:
    """A type with the members that documents have, at any depth; what has a default is always there."""
    if kind is Where:
        return kind  # whose members are left out where they are null
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True).items()
        return TypedDict(kind.__name__, {name: written(part) for name, part in hints})  # type: ignore[operator]
    if isinstance(kind, type) and is_dataclass(kind):
        return record(kind.__name__.removesuffix("Info"), kind)
    parts, origin = get_args(kind), get_origin(kind)
    inner = tuple(map(written, parts))
    if inner == parts or origin is Literal:
        return kind
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner if inner[1:] else inner[0]]


def record(name: str, /, *kinds: type, **members: Any) -> type:
    """A type of objects with the members of some dataclasses, and further ones or others of the same name."""
    known = {member: kind for dataclass in kinds for member, kind in members_of(dataclass).items()} | members
    return msgspec.defstruct(
        name,
        [
            (member, kind, UNSET) if UnsetType in get_args(kind) else (member, kind)
            for member, kind in ((member, written(kind)) for member, kind in known.items())
        ],
        kw_only=True,
    )


def chosen(kind: type, by: str, member: str, among: Mapping[str, type]) -> type:
    """The type of a dataclass whose member `by` is a name that says which type the other `member` has."""
    _CHOICES[kind.__name__] = _Choice(by, member, among)
    return record(kind.__name__, kind, **{by: Literal[tuple(among)], member: Any})


def maybe(kind: Any) -> Any:
    """The type of a member that may be left out."""
    return kind | UnsetType


def row(name: str, columns: Iterable[Column], /, **members: Any) -> type:
    """A type of rows of a table, in which each value may be left out."""
    found = {
        f"{column.name}_b64" if column.kind == "blob" else column.name: maybe(_COLUMN_KINDS[column.kind])
        for column in columns
    }
    return record(name, **(found | members))


def schema_of(kind: Any, title: str, description: str) -> dict[str, Any]:
    """The JSON Schema of a type."""
    (found,), parts = _components([written(kind)])
    for name in parts.keys() & _CHOICES.keys():
        choice = _CHOICES[name]
        refs, more = _components(map(written, choice.among.values()))
        parts |= more
        parts[name]["anyOf"] = [
            {"properties": {choice.by: {"const": value}, choice.member: ref}}
            for value, ref in zip(choice.among, refs, strict=True)
        ]
    defs = {name: _finished(part) for name, part in sorted(parts.items())}
    return {
        "$schema": DIALECT,
        "title": title,
        "description": description,
        **_finished(found),
        "$defs": {**defs, "text": _ODD_TEXT},
    }


def _components(kinds: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """What each type is, and the parts that they refer to by name; a path is a text."""
    return msgspec.json.schema_components(
        kinds, schema_hook=lambda _kind: {"type": "string"}, ref_template="#/$defs/{name}"
    )


def _finished(part: Any) -> Any:
    """A part of a schema of msgspec as documents are written."""
    if isinstance(part, list):
        return [_finished(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "object" and "properties" in part:
        return _object(part)
    return {name: _inner(name, inner) for name, inner in part.items() if name != "default"}


def _inner(name: str, inner: Any) -> Any:
    """What is in a list or a mapping: a text there has no name."""
    if name in ("items", "additionalProperties") and isinstance(inner, dict) and _is_text(inner):
        others = [kind for kind in inner.get("anyOf", ()) if not _is_text(kind)]
        return {"anyOf": [{"$ref": "#/$defs/text"}, *others]} if others else {"$ref": "#/$defs/text"}
    if name == "prefixItems":
        return [_inner("items", item) for item in inner]
    return _finished(inner)


def _object(part: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = part["properties"]
    required = part.get("required", [])
    texts = [name for name, inner in members.items() if _is_text(inner)]
    odd = {f"{name}{end}": _BASE64 for name in texts for end in (BYTES, UNITS)}
    choices = [
        {"oneOf": [{"required": [f"{name}{end}"]} for end in ("", BYTES, UNITS)]}
        for name in texts
        if name in required
    ]
    return {
        "type": "object",
        **({"title": part["title"]} if "title" in part else {}),
        "properties": {name: _finished(inner) for name, inner in members.items()} | odd,
        "required": [name for name in required if name not in texts],
        **({"allOf": choices} if choices else {}),
        **({"anyOf": _finished(part["anyOf"])} if "anyOf" in part else {}),
        "additionalProperties": False,
    }


def _is_text(part: dict[str, Any]) -> bool:
    """Whether a value may be any text."""
    kinds = part.get("anyOf", [part])
    return any(kind.get("type") == "string" and "pattern" not in kind for kind in kinds)
