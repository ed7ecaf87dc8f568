"""Results of tasks <-> JSON, exactly: for the files in which an interrupted check keeps what it has done.

The types of a result say what is what; an array is [dtype, shape, base64]. `rocketfsck.documents` is not used
here: it knows no arrays, and its forms of text that is not UTF-8 are for readers outside of this package.
"""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import msgspec
import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.verify.tasks.task import TaskResult

_ARRAY_KINDS = "biuf"
R = TypeVar("R", bound=TaskResult)


def to_json(result: TaskResult) -> Any:
    """The JSON form of a result; raises TypeError for one that has none."""
    return msgspec.to_builtins(result, enc_hook=_array_to_json)


def from_json(kind: type[R], value: Any) -> R:
    """The result of a JSON form; raises UsageError where `to_json` cannot have made it of such a result."""
    try:
        return msgspec.convert(value, kind, dec_hook=_array_from_json)
    except msgspec.ValidationError as error:
        raise UsageError(f"not a result of a check: {error}") from error


def _array_to_json(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _ARRAY_KINDS:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
    return [value.dtype.str, list(value.shape), data]


def _array_from_json(_kind: type, value: Any) -> Any:
    try:
        name, shape, data = msgspec.convert(value, tuple[str, tuple[int, ...], bytes])
        dtype = np.dtype(name)
        if dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"arrays of {dtype} have no JSON form")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    except (TypeError, SyntaxError, OverflowError) as error:
        raise ValueError(f"not an array: {error}") from error
