"""Rows of what lines mean (`families/*.json`): the statements that a row is for, and what is known of them.

What the classes of a broker do to a store (`areas.json`), for statements without a row of their own. The
longest beginning of a class's name decides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from rocketfsck.common.documents import packaged_text
from rocketfsck.common.rulenames import RuleName

Weight = Literal["normal", "notice", "damage"]
"""normal: seen in healthy stores. notice: ask why. damage: the store, or what a start makes of it."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue of apache/rocketmq. `fixed_in` is the first release with the correction, as far as its sources
    were read; None where none of them has it, or where nothing tells."""

    number: int
    fixed_in: str | None = None

    @property
    def text(self) -> str:
        return f"#{self.number}" + ("" if self.fixed_in is None else f" (fixed in {self.fixed_in})")


@dataclass(frozen=True, slots=True)
class Family:
    """Lines that mean the same. `begins` is how the templates of its statements begin, `owners` the classes
    that they belong to (without one: all); `frames` are methods (`Class.method`) of a stack trace, `errors`
    what the line of an exception holds. `normal_if`: holes that make the line a normal one, by their values.

    `command` is what to type next, without the program's name; `rules` and `classes` are what a check reports
    for it."""

    name: str
    weight: Weight
    meaning: str
    advice: str
    begins: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    normal_if: tuple[tuple[str, str], ...] = ()
    command: str = "check STORE"
    rules: tuple[RuleName, ...] = ()
    classes: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassArea:
    """What classes do whose names begin so, for their statements without a row. `concerns` is a part of a
    store; `command` as in `Family`."""

    begins: tuple[str, ...]
    concerns: str
    advice: str
    command: str = "check STORE"


def _rows(name: str) -> Any:
    return json.loads(packaged_text(__name__, f"{name}.json"))


def _family(name: str, row: dict[str, Any]) -> Family:
    members: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    family = Family(name, **members)
    return replace(
        family,
        rules=tuple(map(RuleName.of_slug, family.rules)),
        issues=tuple(Issue(*issue) for issue in row.get("issues", ())),
        normal_if=tuple((hole, value) for hole, value in family.normal_if),
    )


FAMILIES: dict[str, Family] = {
    name: _family(name, row)
    for subject in ("recovery", "log", "queues", "disk", "replicas", "services")
    for name, row in _rows(f"families/{subject}").items()
}
"""All rows of what lines mean, in the order in which they are looked through."""

AREAS = tuple(ClassArea(**row | {"begins": tuple(row["begins"])}) for row in _rows("areas"))
