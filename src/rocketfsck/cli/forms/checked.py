"""What every form gets of a check, and the form by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from rocketfsck.cli.output import CheckForm
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.verdict import Verdict
from rocketfsck.store.model import Store
from rocketfsck.verify.report import Report


@dataclass(frozen=True, slots=True)
class CheckSaid:
    """A check: its report, the verdict, the exit status and the ids of the rules that were looked at.

    `plan` is that of the repair, for the form that says what a repair writes; `store` is what it is for.
    """

    report: Report
    verdict: Verdict
    exit_code: int
    rules: frozenset[str]
    store: Store | None = None
    plan: Plan | None = None


def render(form: CheckForm, said: CheckSaid) -> Iterator[str]:
    """The pieces of the text of a form."""
    pieces = import_module(f"rocketfsck.cli.forms.{form}").pieces
    return cast(Callable[[CheckSaid], Iterator[str]], pieces)(said)
