"""What a run found: counts, the slowest, the largest, and one smallest case for each kind of finding."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.hostile.fuzz.cases import Case, as_code
from tests.hostile.fuzz.known import known_reason
from tests.hostile.fuzz.laws import Violation
from tests.hostile.fuzz.minimise import minimise
from tests.hostile.fuzz.workers import Outcome

if TYPE_CHECKING:
    from tests.hostile.fuzz.world import World


@dataclass(slots=True)
class Summary:
    """Outcomes, added one by one. `first` holds the first case and violation of each mark."""

    mutants: int = 0
    seconds: float = 0.0
    commands: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[Case, Violation]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)
    largest: tuple[int, int] = (0, 0)

    def add(self, outcome: Outcome) -> None:
        """Take in one outcome."""
        self.mutants += 1
        self.seconds += outcome.seconds
        self.commands.update(outcome.commands)
        self.slowest = max(self.slowest, (outcome.wall_seconds, outcome.case.seed))
        self.largest = max(self.largest, (outcome.peak, outcome.case.seed))
        for violation in outcome.violations:
            self.counts[violation.mark] += 1
            held = self.first.get(violation.mark)
            if held is None or _size(outcome.case) < _size(held[0]):
                self.first[violation.mark] = (outcome.case, violation)

    @property
    def unknown(self) -> list[str]:
        """Marks of findings that are not on the list of what is known."""
        return [mark for mark, (_, found) in self.first.items() if known_reason(found) is None]

    def minimise(self, world: World) -> None:
        """Make the case of each kind of finding that is not known as small as it gets."""
        for mark in self.unknown:
            case, violation = self.first[mark]
            tries = 6 if violation.law == "hang" else 40
            smaller = minimise(case, violation, world.run_one, tries)
            self.first[mark] = (smaller, violation)

    def text(self) -> str:
        """The table for people."""
        share = 1000 * self.seconds / max(self.mutants, 1)
        lines = [
            f"mutants      {self.mutants}",
            f"commands     {sum(self.commands.values())}: "
            + ", ".join(f"{name} {count}" for name, count in sorted(self.commands.items())),
            f"processor    {self.seconds:.0f} s, {share:.0f} ms a mutant",
            f"slowest      {self.slowest[0]:.1f} s (seed {self.slowest[1]})",
            f"peak memory  {self.largest[0] >> 20} MiB (seed {self.largest[1]})",
        ]
        laws = Counter[str]()
        known = Counter[str]()
        for mark, (_, found) in self.first.items():
            reason = known_reason(found)
            (laws if reason is None else known)[found.law if reason is None else reason] += self.counts[mark]
        lines += [f"broken       {law}: {count}" for law, count in sorted(laws.items())]
        lines += [f"known        {reason}: {count}" for reason, count in sorted(known.items())]
        for mark in sorted(self.unknown, key=lambda name: (name.split(" ")[0], -self.counts[name])):
            case, violation = self.first[mark]
            lines += [
                "",
                f"{violation.law} x{self.counts[mark]}: {violation.command}",
                f"    {violation.detail}",
            ]
            lines.append(as_code(case))
        return "\n".join(lines) + "\n"


def _size(case: Case) -> int:
    return 10 * len(case.mutations) + len(case.scenarios)
