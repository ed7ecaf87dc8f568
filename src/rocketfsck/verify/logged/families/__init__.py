"""All rows of what lines mean, in the order in which they are looked through."""

from __future__ import annotations

from rocketfsck.verify.logged.families import disk, log, queues, recovery, replicas, services
from rocketfsck.verify.logged.model import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (recovery, log, queues, disk, replicas, services)
    for family in module.FAMILIES
}
