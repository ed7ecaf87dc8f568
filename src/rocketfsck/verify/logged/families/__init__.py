"""All rows of what lines mean, in the order in which they are looked through."""

from __future__ import annotations

from rocketfsck.verify.logged.areas import Family
from rocketfsck.verify.logged.families import log, queues, recovery, services

FAMILIES: dict[str, Family] = {
    family.name: family for module in (recovery, log, queues, services) for family in module.FAMILIES
}
