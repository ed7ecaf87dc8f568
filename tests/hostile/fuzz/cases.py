"""One number is one case: a store, its changes, what is run on it. Data, so that it can be printed and
shrunk."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.hostile.fuzz.commands import draw_command
from tests.hostile.fuzz.drawing import Ground, draw_mutations
from tests.hostile.fuzz.mutations import Mutation

PLANS = ("repair", "hostile-plan", "hostile-area", "hostile-report", "hostile-rows", "heal", "hostile-resume")
PLAN_WEIGHTS = (60, 10, 10, 6, 4, 8, 4)
COMPILED_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to run: a command line that reads (name "read"), or a longer story of that name.

    `seed` is for what can only be drawn when it is run: changes of a plan that is not made yet.
    """

    name: str
    line: tuple[str, ...] = ()
    seed: int = 0
    stated: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A store, changed, and what is run on it, one after the other."""

    seed: int
    subject: str
    mutations: tuple[Mutation, ...]
    scenarios: tuple[Scenario, ...]
    compiled: bool = False


def draw_case(seed: int, grounds: Mapping[str, Ground]) -> Case:
    """The case of a number; the same on every machine."""
    rng = random.Random(seed)
    ground = grounds[rng.choice(sorted(grounds))]
    count = rng.choices((0, 1, 2, 3, 4), (3, 50, 25, 14, 8))[0]
    mutations: list[Mutation] = []
    for _ in range(count):
        mutations += draw_mutations(rng, ground)
    check = ("check", "--level", "full", "{store}", "{stated}", "--format", "json")
    scenarios = [Scenario("read", check, stated=rng.random() < 0.5)]
    scenarios += [Scenario("read", draw_command(rng, ground), stated=rng.random() < 0.5)]
    if rng.random() < 0.3:
        name = rng.choices(PLANS, PLAN_WEIGHTS)[0]
        options = tuple(
            option for option, share in (("--in-place", 0.4), ("--preen", 0.2)) if rng.random() < share
        )
        scenarios.append(Scenario(name, options, rng.randrange(1 << 32), rng.random() < 0.5))
    return Case(seed, ground.subject.name, tuple(mutations), tuple(scenarios), rng.random() < COMPILED_SHARE)


def as_code(case: Case) -> str:
    """A case as the lines of a test: `CASES` of test_found holds such rows."""
    lines = [f"    Case({case.seed}, {case.subject!r}, ("]
    lines += [f"        {_mutation_code(mutation)}," for mutation in case.mutations]
    lines.append("    ), (")
    lines += [
        f"        Scenario({one.name!r}, {one.line!r}, {one.seed}, {one.stated})," for one in case.scenarios
    ]
    lines.append(f"    ){', True' if case.compiled else ''}),")
    return "\n".join(lines)


def _mutation_code(mutation: Mutation) -> str:
    label = f", {mutation.label!r}" if mutation.label else ""
    return f"Mutation({mutation.kind!r}, {mutation.file!r}, {dict(mutation.arguments)!r}{label})"
