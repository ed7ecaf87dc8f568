"""Named damage, done to a copy of a store, that knows what it broke.

    damage_store(source, target, ["torn-tail"], seed=7)     -> DamageReport
    DAMAGES                                                  every named fault

Each act tells the files and bytes it changed, and the findings that a check must have: rule and exact place.
The classes of faults are those of real incidents; the generic ones hit any place, and what they must cause is
derived from what was there. Imports no rule and no check: rules are named by id.
"""

from __future__ import annotations

from rocketfsck.writer.damage.job import Damage
from rocketfsck.writer.damage.model import (
    Act,
    Change,
    DamagedExtent,
    DamageError,
    DamageReport,
    Promise,
    PromisedPlace,
)
from rocketfsck.writer.damage.run import DAMAGES, damage_store, find_damage, truth_path

__all__ = [
    "DAMAGES", "Act", "Change", "Damage", "DamageError", "DamageReport", "DamagedExtent", "Promise",
    "PromisedPlace", "damage_store", "find_damage", "truth_path",
]  # fmt: skip
