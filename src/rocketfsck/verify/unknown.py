"""Which areas of a store hold something regular that this version of the tool does not know. ADR 0011.

    area := "commitlog" | "consumequeue" | "batchconsumequeue" | "consumequeue_ext" | "index" | "checkpoint"
          | "config" | ...                               the first part of a name below the store's root

A finding of `catalog.UNKNOWN_RULES` names the areas itself (`found["areas"]`, spaces between them) where they
are others than that of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.rules.catalog import UNKNOWN_RULES

LEAST_COUNT, SHARE = 8, 0.9
"""Fewer places that deviate alike, or a smaller share of those that were asked, may be damaged ones."""
AREAS = "areas"
"""Name of the fact with the areas that a finding is about, where its file does not tell."""


def area_of(file: str) -> str:
    """The area of a file or directory of a store by its name below the root; "" is the store as a whole."""
    return file.strip("/").split("/", 1)[0]


def areas_of(finding: Finding) -> tuple[str, ...]:
    """The areas that a finding is about."""
    named = finding.found.get(AREAS)
    if isinstance(named, str):
        return tuple(named.split())
    return (area_of(finding.where.file),)


def doubtful_areas(findings: Iterable[Finding]) -> frozenset[str]:
    """The areas with bytes of which two reads differ: nobody knows what is in them."""
    return frozenset(
        area for finding in findings if finding.rule == RuleName.READS_DIFFER for area in areas_of(finding)
    )


def unknown_areas(findings: Iterable[Finding]) -> Mapping[str, tuple[Finding, ...]]:
    """The areas that hold something this version does not know, each with the findings that say so."""
    found: dict[str, tuple[Finding, ...]] = {}
    for finding in findings:
        if finding.rule in UNKNOWN_RULES:
            for area in areas_of(finding):
                found[area] = (*found.get(area, ()), finding)
    return found
