"""The readers that are compiled from specs/ksy: the second opinion on every structure.

A reader *rejects* bytes by raising `Rejected` (any error of the Kaitai runtime: the stream ended, a size is
negative, a value is not allowed). Whatever else it raises is a fault of the spec.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import kaitaistruct

HERE = Path(__file__).parent
GENERATED = HERE / "generated"
KSY = HERE.parents[1] / "specs" / "ksy"

Rejected: Any = kaitaistruct.KaitaiStructError


def reader(module: str, *inner: str) -> Callable[..., Any]:
    """The class of a spec, or of a type inside it, as a function of bytes and the spec's parameters."""
    found: Any = importlib.import_module(f"tests.kaitai.generated.{module}")
    for name in ("".join(part.title() for part in module.split("_")), *inner):
        found = getattr(found, name)

    def read(data: bytes, *parameters: Any) -> Any:
        return found(*parameters, kaitaistruct.KaitaiStream(BytesIO(data)))

    return read


def values(struct: Any, *names: str) -> dict[str, Any]:
    """Fields of a structure that was read, by name."""
    return {name: getattr(struct, name) for name in names}
