"""JSON documents: dataclasses to JSON values and back, JSON text to values and back.

Every member of a dataclass has its own name. Text whose bytes are not UTF-8 is `<name>_b64`, base64 of the
bytes; text with other lone surrogates is `<name>_utf16`, base64 of its UTF-16BE; in lists and mappings a text
of either kind is an object of one such member, without a name.

A member whose `field` has the metadata `LEFT_OUT` is not in the document where it is None, `UNSAID` never. Of
one with `FLAT`, a dataclass or a mapping, the members are in its place; of None there are none. A name that
is a word of Python's has a `_` at its end in the dataclass. Bytes and paths are texts. All these but
`LEFT_OUT` are written, not read.

Reading is strict: a document says exactly what `to_document` says of the dataclass, or it is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import is_
from pathlib import PurePath
from pkgutil import get_data
from typing import Any, Literal, TypeVar

from rocketfsck.errors import UsageError

BYTES, UNITS = "_b64", "_utf16"
"""Ends of the names of members that are base64 of text which is not UTF-8."""

FLAT, LEFT_OUT, UNSAID = {"said": "flat"}, {"said": "left out"}, {"said": "no"}

DocumentKind = Literal[
    "plan", "report", "baseline", "check state", "since state", "journal", "repair report", "manifest",
    "rebuild state", "rebuild record", "certificate",
]  # fmt: skip

LIMITS: dict[DocumentKind, int] = {
    "plan": 256 << 20,  # up to 2,400 bytes an action
    "report": 256 << 20,
    "baseline": 64 << 20,  # 21 bytes a finding
    "check state": 256 << 20,  # some 500 bytes a queue
    "since state": 256 << 20,
    "journal": 128 << 20,
    "repair report": 128 << 20,
    "manifest": 256 << 20,
    "rebuild state": 64 << 20,  # some 200 bytes a queue
    "rebuild record": 1 << 20,
    "certificate": 256 << 20,  # some 200 bytes a file
}
"""Bytes that a document of each kind may have, asked before any of it is parsed: values take several times
the room of their text."""

VALUE_LIMIT = 16_000_000
"""Values in a document, however short their text: each takes some 100 bytes of memory."""

_INT_LIMIT = 1 << 63
T = TypeVar("T")


def printable(text: str) -> str:
    """Text safe for a terminal: control characters, surrogates and separators as escapes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def packaged_text(module: str, name: str) -> str:
    """A text file next to a module, which may be in an archive (`spark-submit --py-files`)."""
    data = get_data(module, name)
    assert data is not None, "every loader that the package is imported by reads files"
    return data.decode()


def json_text(document: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON in printable ASCII only: nothing in it can act on a terminal. Raises ValueError for a NaN."""
    separators = (",", ":") if compact else None
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, indent=indent, separators=separators)
    return text.replace("\x7f", "\\u007f")


def parse_text(data: bytes, name: str) -> Any:
    """JSON without what JSON does not have: members twice, NaN, bytes that are not UTF-8. UsageError for
    that, and for more than `VALUE_LIMIT` values, before any of them is parsed."""
    count = sum(map(data.count, (b",", b"[", b"{")))
    if count > VALUE_LIMIT:
        raise UsageError(f"{printable(name)} has {count:,} values; a document has at most {VALUE_LIMIT:,}")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{printable(name)} is not JSON: {printable(str(error))}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def to_document(value: Any) -> dict[str, Any]:
    """A dataclass as JSON values; `from_document` gives an equal one back."""
    return named(dict(members(value)))


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """The members that the document of a dataclass has, with their values as they are."""
    kind: Any = type(value)
    for attribute, name, form in _forms(kind):
        inner = getattr(value, attribute)
        if form == "":
            yield name, inner
        elif inner is not None:
            if form == "left out":
                yield name, inner
            else:
                yield from inner.items() if isinstance(inner, Mapping) else members(inner)


@cache
def _forms(kind: Any) -> tuple[tuple[str, str, str], ...]:
    """The attributes of a dataclass, each with its name in documents and how it gets there."""
    forms = ((item.name, item.metadata.get("said", "")) for item in fields(kind))
    return tuple((name, name.removesuffix("_"), form) for name, form in forms if form != "no")


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Members whose names are fixed, as those of a dataclass are, as JSON values."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str | bytes | PurePath):
            suffix, text = encode_text(value)
            found[name + suffix] = text
        else:
            found[name] = plain(value)
    return found


def plain(value: Any) -> Any:
    """What a dataclass, or a list or mapping, has in it, as JSON values."""
    if isinstance(value, str | bytes):
        return nameless(value)
    if is_dataclass(value):
        return to_document(value)
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return sorted(value) if isinstance(value, frozenset) else value


def nameless(text: str | bytes) -> str | dict[str, str]:
    """A text that has no name, as in a list."""
    suffix, said = encode_text(text)
    return {suffix: said} if suffix else said


def from_document(
    kind: type[T],
    document: Any,
    what: str,
    *,
    exact: bool = True,
    complete: Callable[[T, Any], T] = lambda value, _members: value,
) -> T:
    """The dataclass that `to_document` was given; raises UsageError with the place of what is wrong.

    `what` is what the document should be, in a word or two. Unless `exact`, it may have members that the
    dataclass has not, and lack some that have a default. `complete` reads what the type of a member does not
    say, out of the members with their texts under their own names; it raises ValueError.
    """
    try:
        members = folded(document, "")
        value: T = complete(convert(kind, members), members)
        wrong = _difference(document, value, "") if exact else ""
    except (ValueError, RecursionError) as error:
        wrong = str(error)
    if wrong:
        raise UsageError(f"{what}: {printable(wrong)}")
    return value


def _path(kind: type, value: Any) -> Any:
    """A path, which JSON has as text. Raises ValueError for anything else."""
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")


def convert(kind: Any, value: Any) -> Any:
    """JSON values, whose text is `folded`, as a value of some type; raises ValueError."""
    import msgspec  # most commands read no document

    try:
        return msgspec.convert(value, kind, dec_hook=_path)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        where = place.rstrip("`").removeprefix(".")
        said = said[0].lower() + said[1:]
        raise ValueError(f"{where}: {said}" if where else said) from error


def folded(value: Any, place: str) -> Any:
    """JSON values with every text under its own name; raises ValueError for text that has another form.

    What has no text of another form is given back, and not a copy: documents may be large.
    """
    if isinstance(value, dict):
        if len(value) == 1 and (suffix := next(iter(value))) in (BYTES, UNITS):
            return _text(value[suffix], suffix, place)
        members: dict[str, Any] = {}
        for name, inner in value.items():
            may = isinstance(inner, str)  # a number's name may end so, too
            suffix = next((end for end in (BYTES, UNITS) if may and name.endswith(end)), "")
            base = name.removesuffix(suffix)
            inside = f"{place}.{base}" if place else base
            if base in members:
                raise ValueError(f"{inside} is there twice")
            members[base] = _text(inner, suffix, inside) if suffix else folded(inner, inside)
        same = all(members.get(name, members) is inner for name, inner in value.items())
        return value if same else members
    if isinstance(value, list):
        items = [folded(inner, f"{place}[{number}]") for number, inner in enumerate(value)]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, str):
        return _text(value, "", place)
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
        raise ValueError(f"{place} is not a 64-bit integer")
    return value


def _text(value: Any, suffix: str, place: str) -> str:
    try:
        return decode_text(suffix, value)
    except ValueError as error:
        raise ValueError(f"{place} is not a text: {error}") from error


def _difference(given: Any, value: Any, place: str) -> str:
    """Where a document first says something else than is made of what was read from it; "" for no place."""
    made = _opened(value)
    if isinstance(given, dict) and isinstance(made, dict):
        inside = f"{place}." if place else ""
        if more := given.keys() - made.keys():
            return f"{inside}{min(more)} is not a member"
        if less := made.keys() - given.keys():
            return f"{inside}{min(less)} is missing"
        found = (_difference(value, made[name], f"{inside}{name}") for name, value in given.items())
    elif isinstance(given, list) and isinstance(made, list) and len(given) == len(made):
        pairs = enumerate(zip(given, made, strict=True))
        found = (_difference(*pair, f"{place}[{number}]") for number, pair in pairs)
    else:
        return "" if type(given) is type(made) and given == made else f"{place} is not in its one form"
    return next((wrong for wrong in found if wrong), "")


def _opened(value: Any) -> Any:
    """What `plain` makes of a value, but for what is in it: a large document is not made a second time."""
    if is_dataclass(value):
        found: dict[str, Any] = {}
        for name, inner in members(value):
            suffix, inner = encode_text(inner) if isinstance(inner, str | PurePath) else ("", inner)
            found[name + suffix] = inner
        return found
    if isinstance(value, str):
        return plain(value)
    return list(value) if isinstance(value, tuple) else value


def encode_text(text: str | bytes | PurePath) -> tuple[str, str]:
    """(suffix of the member's name, its value) for a text or path that may be no UTF-8, or for its bytes."""
    if isinstance(text, PurePath):
        text = str(text)
    if isinstance(text, bytes):
        try:
            return "", text.decode("utf-8")
        except UnicodeDecodeError:
            return BYTES, base64_text(text)
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
        return BYTES, base64_text(raw)
    return UNITS, base64_text(text.encode("utf-16-be", "surrogatepass"))


def base64_text(value: bytes) -> str:
    """Base64 of bytes, as text."""
    return base64.b64encode(value).decode("ascii")


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
    text = os.fsdecode(raw) if suffix == BYTES else raw.decode("utf-16-be", "surrogatepass")
    if encode_text(text) != (suffix, value):
        raise ValueError("not in its one form")
    return text
