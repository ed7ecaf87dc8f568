"""Values <-> JSON, exactly: for the files in which an interrupted check writes down what it has done.

    int, float, str, bool, None    as they are        list of [...]   a tuple
    {"$bytes": base64}             bytes              {"$map": {...}} a dict with str keys
    {"$array": [dtype, shape, base64]}                a NumPy array
    {"$type": "module:Class", field: value, ...}      a dataclass
    {"$enum": ["module:Class", value]}                a member of an enumeration

Only dataclasses and enumerations of this package are made from a file, so that a file made by somebody else
can at worst be refused.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
from enum import Enum
from typing import Any

import numpy as np

from rocketfsck.errors import UsageError

_HOMES = ("rocketfsck.verify.", "rocketfsck.scan.", "rocketfsck.store.", "rocketfsck.rulenames")
_ARRAY_KINDS = "biuf"
_SPECIAL = frozenset({"$bytes", "$map", "$array", "$enum"})


def to_json(value: Any) -> Any:
    """The JSON form of a value; raises TypeError for a kind that has none."""
    if isinstance(value, Enum):
        return {"$enum": [_name_of(type(value)), value.value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {"$array": [value.dtype.str, list(value.shape), data]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"$type": _name_of(type(value)), **fields}
    if hasattr(value, "items"):
        return {"$map": {_text(key): to_json(item) for key, item in value.items()}}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_json(value: Any) -> Any:
    """The value of a JSON form; raises UsageError where `to_json` cannot have made it."""
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    try:
        if "$type" in value:
            kind = _class_of(value["$type"])
            if not dataclasses.is_dataclass(kind):
                raise ValueError(f"{kind.__name__} is not a record")
            return kind(**{name: from_json(item) for name, item in value.items() if name != "$type"})
        if len(value) != 1 or not _SPECIAL.issuperset(value):
            raise ValueError("an object of no known kind")
        ((tag, content),) = value.items()
        return _special(tag, content)
    except (ValueError, TypeError, AttributeError, LookupError, ImportError) as error:
        raise UsageError(f"not a value that a check has written: {error}") from error


def _special(tag: str, content: Any) -> Any:
    if tag == "$bytes":
        return base64.b64decode(content, validate=True)
    if tag == "$map":
        return {_text(key): from_json(item) for key, item in content.items()}
    if tag == "$enum":
        kind = _class_of(content[0])
        if not issubclass(kind, Enum):
            raise ValueError(f"{kind.__name__} is not an enumeration")
        return kind(content[1])
    kind_text, shape, data = content
    dtype = np.dtype(kind_text)
    if dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"arrays of {dtype} are not written")
    return np.frombuffer(base64.b64decode(data, validate=True), dtype).reshape([int(n) for n in shape]).copy()


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a map's key is {type(key).__name__}, not text")
    return key


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: Any) -> type:
    module, _, qualname = _text(name).partition(":")
    if not module.startswith(_HOMES):
        raise ValueError(f"{name} is not of this package")
    kind = getattr(importlib.import_module(module), qualname)
    if not isinstance(kind, type) or kind.__module__ != module:
        raise ValueError(f"{name} is not a type")
    return kind
