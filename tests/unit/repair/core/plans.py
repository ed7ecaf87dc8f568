"""Plans and rows of the table of repairs for tests: small acts on real stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action, Notice, Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store

LOG = "commitlog/00000000000000000000"


@dataclass(frozen=True, slots=True)
class GoodStore(Arguments):
    path: str


def aside(scene: PlanScene, findings: Sequence[Finding]) -> Iterable[Action]:
    """Every stray is set aside."""
    for finding in findings:
        file = finding.where.file
        whole = scene.extent(file) if Path(scene.path_of(file)).is_file() else None
        yield Action(
            "move-stray",
            file,
            "It is set aside.",
            why=(finding.fingerprint,),
            rules=(finding.rule,),
            preconditions=() if whole is None else (whole,),
        )


def act_aside(scene: ActScene, action: Action, _arguments: Arguments) -> None:
    scene.tree.set_aside(action.target)


def units(scene: PlanScene, findings: Sequence[Finding]) -> Iterable[Action]:
    """Queue files are put back from what stands beside the store as `<store>.good`."""
    for file in sorted({finding.where.file for finding in findings if finding.where.file}):
        same = [finding for finding in findings if finding.where.file == file]
        yield Action(
            "rebuild-queue",
            file,
            "It is rebuilt.",
            GoodStore(f"{scene.store.root}.good"),
            tuple(finding.fingerprint for finding in same),
            tuple({finding.rule for finding in same}),
            (scene.extent(file),),
            write_byte_count=6_000_000,
            notices=(Notice("renumbered", 1),),
        )


def act_units(scene: ActScene, action: Action, arguments: GoodStore) -> None:
    good = Path(arguments.path, action.target)
    if not good.exists():
        raise StoreError("nothing to rebuild from", path=action.target)
    place = scene.tree.scratch() / "file"
    place.write_bytes(good.read_bytes())
    scene.reopen()
    scene.tree.adopt(place, action.target)


REPAIRS: Mapping[str, Row] = {
    repair.name: repair
    for repair in (
        Repair("rebuild-queue", 20, "put queue files back", units, act_units, GoodStore),
        Repair("move-stray", 10, "set strays aside", aside, act_aside, Arguments),
    )
}


def plan_of(root: Path, **options: object) -> Plan:
    """The plan for what a full check finds."""
    store = open_store(root)
    report = check_store(store, CheckOptions(jobs=1))
    return make_plan(store, report, repairs=REPAIRS, **options)  # type: ignore[arg-type]


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every name below a directory with its mode, its time of modification and its bytes."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        for name in (*folders, *names):
            path = folder + b"/" + name
            status = os.lstat(path)
            link = os.path.islink(path)  # noqa: PTH114
            data = os.readlink(path) if link else b""  # noqa: PTH115
            if not link and os.path.isfile(path):  # noqa: PTH113
                data = Path(os.fsdecode(path)).read_bytes()
            when = status.st_mtime_ns if data else 0
            found[os.fsdecode(path[len(os.fsencode(root)) :])] = (status.st_mode, when, data)
    return found
