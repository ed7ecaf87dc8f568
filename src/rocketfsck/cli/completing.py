"""What a shell may put behind an option or as an argument: names of rules, classes and repairs."""

from __future__ import annotations

import click

EVERY_REPAIR = "repairs"
"""What `explain` accepts for the list of all repairs."""


def complete_rules(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Ids and slugs of rules that begin so; of a list with commas its last word."""
    from rocketfsck.verify.rules.catalog import RULES

    before, comma, word = begun.rpartition(",")
    names = [*RULES, *(rule.slug for rule in RULES.values())]
    return [f"{before}{comma}{name}" for name in _beginning(names, word)]


def complete_repairs(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs

    return _beginning([*all_repairs()], begun)


def complete_explained(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Ids, slugs, classes and repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    slugs = [rule.slug for rule in RULES.values()]
    return _beginning([*RULES, *slugs, *FAULT_CLASSES, EVERY_REPAIR, *all_repairs()], begun)


def _beginning(names: list[str], begun: str) -> list[str]:
    return [name for name in names if name.lower().startswith(begun.lower())]
