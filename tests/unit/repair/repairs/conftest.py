"""Stores that are changed by hand, then checked, planned for and mended in a working tree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import all_repairs, make_plan
from rocketfsck.repair.plan.table import ActScene
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import Directory

NOW = 1_800_000_000_000


def bad(report: Report) -> set[str]:
    """The rules above info that are broken."""
    return {rule for rule, count in report.counts.items() if count and RULES[rule].severity > Severity.INFO}


@dataclass
class Patient:
    """A store that a test may change, and the tree in which it is mended."""

    root: Path
    area: Path
    version: str | None = None
    tree: WorkTree | None = None

    def file(self, name: str) -> Path:
        return self.root / name

    def put(self, name: str, pos: int, data: bytes) -> None:
        with self.file(name).open("r+b") as stream:
            stream.seek(pos)
            stream.write(data)

    def open(self) -> Store:
        return open_store(self.root, version=self.version)

    def check(self, **options: object) -> Report:
        return check_store(self.open(), CheckOptions(now_timestamp=NOW, **options), engine=LocalEngine(1))  # type: ignore[arg-type]

    def plan(self, **options: object) -> Plan:
        return make_plan(self.open(), self.check(), **options)  # type: ignore[arg-type]

    def scene(self) -> ActScene:
        if self.tree is None:
            self.area.mkdir()
            self.tree = WorkTree.clone(self.root, self.area)
        return ActScene(self.tree, self.reopen)

    def reopen(self) -> Store:
        assert self.tree is not None
        return open_store(self.tree.root, version=self.version)

    def act(self, action: Action) -> None:
        all_repairs()[action.name].act(self.scene(), action, action.arguments)

    def mend(self, **options: object) -> tuple[Plan, Report]:
        """Plan, act in the tree, check what came of it."""
        plan = self.plan(**options)
        for action in plan.actions:
            self.act(action)
        self.scene()
        return plan, check_store(self.reopen(), CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))

    def mended(self, name: str) -> Path:
        assert self.tree is not None
        return self.tree.root / name

    def aside(self) -> set[str]:
        """The files that were set aside."""
        assert self.tree is not None
        base = self.tree.set_aside_root
        return {str(path.relative_to(base)) for path in base.rglob("*") if path.is_file()}


Patients = Callable[[str], Patient]


@pytest.fixture
def patient(store_dir: Directory, tmp_path: Path) -> Patients:
    """Gives a copy of a broker-written store by name."""

    def copy(name: str) -> Patient:
        return Patient(Path(shutil.copytree(store_dir(name), tmp_path / "store")), tmp_path / "area")

    return copy


def names(plan: Plan) -> list[str]:
    """The names of the plan's actions, in order."""
    return [action.name for action in plan.actions]
