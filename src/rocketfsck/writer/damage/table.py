"""The table of all named faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from rocketfsck.writer.damage import (
    compactionfaults,
    configfaults,
    databasefaults,
    dledgerfaults,
    genericfaults,
    indexfaults,
    queuefaults,
    recordfaults,
    rowfaults,
    segmentfaults,
    smallfaults,
    tieredfaults,
    timerfaults,
    unitfaults,
)
from rocketfsck.writer.damage.job import Damage
from rocketfsck.writer.damage.model import DamageError


def build_table(damages: Iterable[Damage]) -> Mapping[str, Damage]:
    """Faults by name, in the order given; ValueError for a name that is used twice."""
    table: dict[str, Damage] = {}
    for damage in damages:
        if damage.name in table:
            raise ValueError(f"two faults have the name {damage.name}")
        table[damage.name] = damage
    return MappingProxyType(table)


MODULES = (
    recordfaults,
    segmentfaults,
    unitfaults,
    queuefaults,
    indexfaults,
    smallfaults,
    configfaults,
    timerfaults,
    compactionfaults,
    tieredfaults,
    dledgerfaults,
    databasefaults,
    rowfaults,
    genericfaults,
)
"""The modules in whose order, and in the order within them, the faults are listed."""

DAMAGES: Mapping[str, Damage] = build_table(
    value for module in MODULES for value in vars(module).values() if isinstance(value, Damage)
)


def find_damage(name: str) -> Damage:
    """The fault of this name; DamageError, with the nearest name, for none."""
    damage = DAMAGES.get(name)
    if damage is None:
        near = get_close_matches(name, DAMAGES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DamageError(f"no fault has the name {name!r}{hint}")
    return damage
