"""Mutants: functions with one change each, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from tests.mutation.functions import Source, code_of, functions_of
from tests.mutation.operators import offers


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the `step`-th that the function offers, in the line that is shown."""

    module: str
    function: str
    first_line: int
    step: int
    line: int
    operator: str
    text: str

    @property
    def name(self) -> str:
        """The function by the name that `Calls` has for it."""
        return f"{self.module}:{self.function}"

    @property
    def package(self) -> str:
        return self.module.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.operator}: {self.text}"


def all_mutants(source: Source) -> Iterator[Mutant]:
    """Every change of every function, by modules and lines."""
    for module in source.modules():
        lines = (source.root / module).read_text("utf-8").splitlines()
        for (name, first_line), function in functions_of(source.tree(module)).items():
            for step, offer in enumerate(offers(function)):
                text = lines[offer.line - 1].strip()
                yield Mutant(module, name, first_line, step, offer.line, offer.operator, text)


def draw(source: Source, count: int, seed: int) -> list[Mutant]:
    """So many of them, the same for a seed as long as the source is the same."""
    mutants = list(all_mutants(source))
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def mutated_code(source: Source, mutant: Mutant) -> CodeType | None:
    """The code of the changed function; None where no such code comes out."""
    tree = source.tree(mutant.module)
    wanted = (mutant.function, mutant.first_line)
    list(offers(functions_of(tree)[wanted]))[mutant.step].apply()
    try:
        return code_of(tree, source.file(mutant.module), wanted)
    except SyntaxError:
        return None
