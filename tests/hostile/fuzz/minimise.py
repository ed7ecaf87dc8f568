"""The same broken law with less: fewer changes, fewer commands, smaller values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from tests.hostile.fuzz.cases import Case
from tests.hostile.fuzz.laws import Violation
from tests.hostile.fuzz.mutations import Mutation
from tests.hostile.fuzz.workers import Runner

TRIES = 60
T = TypeVar("T")


def minimise(case: Case, violation: Violation, run: Runner, tries: int = TRIES) -> Case:
    """A smaller case in which the same law is broken at the same place. `run` runs a case."""
    found = True
    while found and tries > 0:
        found = False
        for smaller in _smaller(case):
            tries -= 1
            if any(other.mark == violation.mark for other in run(smaller).violations):
                case, found = smaller, True
                break
            if tries <= 0:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for number in range(len(case.scenarios)):
        if len(case.scenarios) > 1:
            yield replace(case, scenarios=_without(case.scenarios, number))
    for number in range(len(case.mutations)):
        yield replace(case, mutations=_without(case.mutations, number))
    if case.compiled:
        yield replace(case, compiled=False)
    for number, scenario in enumerate(case.scenarios):
        if scenario.stated:
            yield replace(case, scenarios=_with(case.scenarios, number, replace(scenario, stated=False)))
        if scenario.name != "read" and scenario.line:
            yield replace(case, scenarios=_with(case.scenarios, number, replace(scenario, line=())))
    for number, mutation in enumerate(case.mutations):
        for changed in _simpler(mutation):
            yield replace(case, mutations=_with(case.mutations, number, changed))


def _simpler(mutation: Mutation) -> Iterator[Mutation]:
    """Smaller values: fewer bytes changed, fewer bits set, shorter files."""
    arguments = dict(mutation.arguments)
    if mutation.kind == "set":
        data = bytes.fromhex(arguments["data"])
        candidates = [b"\xff" * len(data), bytes(len(data))]
        if len(data) > 8:
            candidates += [data[: len(data) // 2]]
        for candidate in candidates:
            if candidate != data and sum(candidate) <= sum(data):
                yield replace(mutation, arguments=arguments | {"data": candidate.hex()})
    if mutation.kind == "truncate":
        for size in (0, arguments["size"] // 2):
            if size < arguments["size"]:
                yield replace(mutation, arguments=arguments | {"size": size})


def _without(items: tuple[T, ...], number: int) -> tuple[T, ...]:
    return items[:number] + items[number + 1 :]


def _with(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
