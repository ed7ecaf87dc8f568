"""The reference page of the Python interface: what `rocketfsck` exports, from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

import rocketfsck

from docs.site.marks import plain

_OWN = "rocketfsck"


def python_page() -> list[str]:
    """Every public name with its signature, its docstring and its public members."""
    names = [name for name in rocketfsck.__all__ if not name.startswith("_")]
    lines = [
        "# Python reference",
        "",
        "The public names of the package `rocketfsck`, as their docstrings describe them. "
        "[The Python interface](../docs/guide/python-api.md) shows how they are used.",
        "",
        "```text",
        inspect.cleandoc(rocketfsck.__doc__ or ""),
        "```",
        "",
    ]
    for name in sorted(names, key=str.lower):
        lines += _entry(name, getattr(rocketfsck, name))
    return lines


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"## {_OWN}.{name}"
    yield ""
    if inspect.isclass(value):
        yield from _class(name, value)
        return
    yield from _signature(name, value)
    yield from _docstring(value)


def _class(name: str, value: type) -> Iterator[str]:
    if not issubclass(value, BaseException | Enum):
        yield from _signature(name, value)
    yield from _docstring(value)
    for member, found in sorted(vars(value).items()):
        if member.startswith("_") and member != "__iter__":
            continue
        if isinstance(found, property):
            yield from (f"### {name}.{member}", "", "A property.", "")
            yield from _docstring(found)
        elif isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
            yield from (f"### {name}.{member}", "")
            yield from _signature(member, getattr(value, member))
            yield from _docstring(getattr(value, member))


def _signature(name: str, value: Any) -> Iterator[str]:
    """The signature, a parameter a line where it is long. Defaults without a text of their own are `…`."""
    signature = inspect.signature(value)
    parameters = [
        one if one.default is one.empty or _is_plain(one.default) else one.replace(default=_ELLIPSIS)
        for one in signature.parameters.values()
    ]
    shown = f"{name}{signature.replace(parameters=parameters)}".replace("'", "").replace("NoneType", "None")
    if len(shown) > 100 and parameters:
        inner = "".join(f"    {one},\n" for one in _marked(parameters)).replace("'", "")
        gives = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
        shown = f"{name}(\n{inner}){gives}"
    yield from ("```python", shown, "```", "")


def _marked(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """The parameters as texts, with the `*` before those that have to be named."""
    is_marked = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        yield str(one)


class _Ellipsis:
    def __repr__(self) -> str:
        return "…"


_ELLIPSIS = _Ellipsis()


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | str | float | tuple)


def _docstring(value: Any) -> Iterator[str]:
    """A docstring as text: paragraphs as they are, blocks that are indented as code."""
    text = inspect.getdoc(value) or ""
    yield plain(text) if "    " not in text else f"```text\n{text}\n```"
    yield ""
