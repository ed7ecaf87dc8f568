"""What is run on a damaged store, and which laws each of it is held to."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketfsck.errors import EXIT_USAGE, RocketfsckError
from rocketfsck.repair.apply.judging import NAMING
from rocketfsck.verify.report import Report

from tests.hostile.fuzz.brokerwork import work_as_a_broker
from tests.hostile.fuzz.cases import Case, Scenario
from tests.hostile.fuzz.commands import STATUSES
from tests.hostile.fuzz.documents import change_document, change_rows
from tests.hostile.fuzz.drawing import Ground
from tests.hostile.fuzz.laws import (
    Violation,
    differences,
    full_state,
    lost_records,
    new_record_count,
    outer_state,
    predicted_harm,
    sound_records,
)
from tests.hostile.fuzz.mutations import Mutation, apply_mutation, copy_store
from tests.hostile.fuzz.running import Ended, is_safe_text, run
from tests.hostile.fuzz.seen import unseen_damage

_KEYS_LEFT = {"IX002", "XR020", "XR021"}
_STILL_FOUND = "Still found, although it was to be corrected"
FULL_CHECK = ("check", "--level", "full", "{store}")


@dataclass(slots=True)
class Scene:
    """The folder of one case: the store, what must not be touched beside it, and room for what is written."""

    ground: Ground
    case: Case
    folder: Path
    commands: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    forged: bool = False  # a document that is given was changed: refusing it as a usage error is right

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def fail(self, law: str, command: str, detail: str) -> None:
        self.violations.append(Violation(law, command, detail))

    def stated(self, scenario: Scenario) -> list[str]:
        if not scenario.stated:
            return []
        return [
            "--broker-version",
            self.ground.subject.version,
            "--broker-conf",
            str(self.ground.subject.conf),
        ]

    def line(self, scenario: Scenario) -> list[str]:
        """The scenario's command line with its places filled in."""
        places = {
            "store": self.store, "sound": self.ground.subject.path, "out": self.out,
            "conf": self.ground.subject.conf
        }  # fmt: skip
        words: list[str] = []
        for word in scenario.line:
            words += self.stated(scenario) if word == "{stated}" else [word.format_map(places)]
        return words

    def run(self, *arguments: str) -> Ended:
        """A command, held to the laws of all commands."""
        ended = run(*arguments)
        name = arguments[0]
        self.commands[name] = self.commands.get(name, 0) + 1
        command = self.shown(arguments)
        if ended.crash:
            self.fail("crash", command, ended.crash)
        elif ended.status not in STATUSES[name] and not (self.forged and ended.status == EXIT_USAGE):
            self.fail("status", command, f"exit status {ended.status}: {_last_line(ended.err)}")
        if "out of memory" in ended.err:
            self.fail("memory", command, _last_line(ended.err))
        self._judge_output(command, arguments, ended)
        return ended

    def shown(self, arguments: tuple[str, ...] | list[str]) -> str:
        return " ".join(arguments).replace(str(self.folder), "…")

    def _judge_output(self, command: str, arguments: tuple[str, ...], ended: Ended) -> None:
        form = arguments[arguments.index("--format") + 1] if "--format" in arguments else "text"
        if form in ("arrow", "parquet", "csv") or ended.crash:
            return
        if not is_safe_text(ended.out):
            self.fail("output", command, "control characters in the output")
        if form in ("json", "jsonl") and ended.out and ended.status & ~12 == 0:
            try:
                lines = ended.out.splitlines() if form == "jsonl" else [ended.out]
                documents = [json.loads(line, parse_constant=_refuse) for line in lines]
            except ValueError as error:
                self.fail("output", command, f"not JSON: {error}")
                return
            if arguments[0] == "check" and form == "json":
                self._judge_report(command, documents[0], self._checked(arguments))

    def _checked(self, arguments: tuple[str, ...]) -> Path:
        """Which store a check was of: the one of the case, or one that was made of it."""
        made = self.out / "made"
        return made if str(made) in arguments else self.store

    def _judge_report(self, command: str, document: Any, checked: Path) -> None:
        for name, regions in document["regions"].items():
            try:
                size = os.stat(checked / name).st_size  # noqa: PTH116 - the name may hold any bytes
            except OSError:
                continue
            total = sum(region["byte_count"] for region in regions)
            if total != size:
                self.fail("report", command, f"the regions of {name} have {total} bytes of {size}")
        try:
            again = json.loads(json.dumps(Report.from_json(document).to_json()))
        except RocketfsckError as error:
            self.fail("report", command, f"does not come back: {error}")
            return
        of_check = ("exit_code", "outcome", "verdict")  # what the command adds to its report, or makes of it
        names = [name for name in document if name not in of_check and again.get(name) != document[name]]
        if names:
            self.fail("report", command, f"comes back with others: {', '.join(names)}")


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def run_case(case: Case, ground: Ground, folder: Path) -> Scene:
    """Do it all in a folder of its own, which is removed again."""
    scene = Scene(ground, case, folder)
    folder.mkdir(parents=True)
    try:
        copy_store(ground.subject.path, scene.store)
        done = [mutation for mutation in case.mutations if apply_mutation(scene.store, mutation)]
        scene.out.mkdir()
        (folder / "victim").mkdir()
        (folder / "victim" / "precious").write_text("not of this store\n")
        os.environ["ROCKETFSCK_KERNELS"] = "compiled" if case.compiled else "plain"
        for scenario in case.scenarios:
            scene.forged = False
            status = STORIES[scenario.name](scene, scenario)
            if scenario.line[:4] == FULL_CHECK and not {"--select", "--subset"} & {*scenario.line}:
                _judge_check(scene, scenario, status, done)
            shutil.rmtree(scene.out)
            scene.out.mkdir()
    finally:
        _remove(folder)
    return scene


def _remove(folder: Path) -> None:
    for above, folders, _ in os.walk(folder):
        for name in folders:
            place = f"{above}/{name}"
            if not os.path.islink(place):  # noqa: PTH114
                os.chmod(place, 0o700)  # noqa: PTH101
    shutil.rmtree(folder)


def _read(scene: Scene, scenario: Scenario) -> int:
    before = outer_state(scene.folder, ("out",))
    line = scene.line(scenario)
    ended = scene.run(*line)
    after = outer_state(scene.folder, ("out",))
    if before != after:
        scene.fail("read-only", scene.shown(line), differences(before, after))
    return ended.status


def _judge_check(scene: Scene, scenario: Scenario, status: int, done: list[Mutation]) -> None:
    """Exit status 0 of a full check: what may that be?"""
    command = scene.shown(scene.line(scenario))
    subject = scene.ground.subject
    if not done and subject.clean and status and "--as-broker" not in scenario.line:
        scene.fail("control", command, f"exit status {status} of a sound store")
    if done and subject.clean and not status:
        for label in unseen_damage(scene.ground, scene.store, done):
            scene.fail("unseen", command, label)


def _repair(scene: Scene, scenario: Scenario) -> int:
    """check -> plan -> apply -> check -> plan -> undo."""
    plan = _make_plan(scene, scenario)
    return 0 if plan is None else _apply(scene, scenario, plan)


def _make_plan(scene: Scene, scenario: Scenario, *options: str) -> dict[str, Any] | None:
    before = outer_state(scene.folder, ("out",))
    path = scene.out / "plan.json"
    line = ["plan", str(scene.store), "-o", str(path), *scene.stated(scenario), *options]
    line += [option for option in scenario.line if option == "--preen"]
    scene.run(*line)
    after = outer_state(scene.folder, ("out",))
    if before != after:
        scene.fail("read-only", scene.shown(line), differences(before, after))
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def _apply(scene: Scene, scenario: Scenario, plan: Mapping[str, Any], *, whole: bool = True) -> int:
    """Carry out out/plan.json and hold the result to the laws of repairs, then take it back.

    `whole`: the plan is for all that can be repaired, so that there is nothing to plan after it.
    """
    conf = scene.ground.subject.conf if scenario.stated else None
    version = scene.ground.subject.version
    before, beside = full_state(scene.store), outer_state(scene.folder, ("out", "store"))
    records = sound_records(scene.store)
    harm = None if scene.forged else predicted_harm(scene.store, version, conf)
    line = ["apply", str(scene.out / "plan.json"), *_options(scenario, plan)]
    command = scene.shown(line)
    ended = scene.run(*line)
    if not ended.status & 1:
        if full_state(scene.store) != before:
            scene.fail("unchanged", command, differences(before, full_state(scene.store)))
        if outer_state(scene.folder, ("out", "store/")).keys() - {"store"} != beside.keys() - {"store"}:
            scene.fail(
                "unchanged", command, differences(beside, outer_state(scene.folder, ("out", "store/")))
            )
        if plan["actions"] and not scene.forged and not ended.crash:
            scene.fail("refused", command, _refusal(ended))
        return ended.status
    records_after = sound_records(scene.store)
    lost = lost_records(records, records_after, plan)
    if lost and not scene.forged:
        scene.fail("lost", command, f"{len(lost)} sound records that the plan does not name, first {lost[0]}")
    if not scene.forged:
        after = predicted_harm(scene.store, version, conf)
        new_count = new_record_count(records, records_after)
        worse = "" if after is None or harm is None else after.worse_than(harm, new_count)
        if {action["name"] for action in plan["actions"]} & NAMING:
            worse = ""  # the log is another one: what is in no queue and no index was not in it
        if worse.startswith("unindexed") and _KEYS_LEFT & {item["rule"] for item in plan["unanswered"]}:
            worse = ""  # a start puts the keys back that it dispatches again; the plan leaves the others
        index = scene.store / "index"
        if worse.startswith("unindexed") and index.is_symlink() and not index.exists():
            worse = ""  # no start puts anything there, and no repair makes what a link leads to
        if worse:
            scene.fail("start", command, f"{worse} by {_actions(plan)}")
        if whole:
            _check_again(scene, scenario, plan, ended)
    _outside(scene, beside, command)
    if "--in-place" in scenario.line or scenario.seed % 2:
        _undo(scene, before, beside)
    else:
        _undo_after_work(scene, before, random.Random(scenario.seed))
    return ended.status


def _options(scenario: Scenario, plan: Mapping[str, Any]) -> list[str]:
    """How to apply: where, and with what the plan assumes confirmed."""
    assumed = {
        assumption["name"]
        for action in plan["actions"]
        for assumption in action["assumptions"]
        if assumption["how"] == "assumed"
    }
    options = [option for option in scenario.line if option == "--in-place"]
    return options + [word for name in sorted(assumed) for word in ("--assume", name)]


def _actions(plan: Mapping[str, Any]) -> str:
    return ", ".join(sorted({action["name"] for action in plan["actions"]}))


def _refusal(ended: Ended) -> str:
    """Why nothing was changed: the last line of the errors, or of the report the findings and the result."""
    if ended.err.strip():
        return f"exit status {ended.status}: {_last_line(ended.err)}"
    lines = ended.out.decode("utf-8", "replace").splitlines()
    heads = [number for number, line in enumerate(lines) if line in ("New", _STILL_FOUND)]
    stated = [lines[number + 1].strip() for number in heads if number + 1 < len(lines)]
    stated += [line for line in lines if line.startswith("Result: ")]
    return f"exit status {ended.status}: {' / '.join(stated)[:300]}"


def _check_again(scene: Scene, scenario: Scenario, plan: Mapping[str, Any], ended: Ended) -> None:
    """A check of the repaired store finds what the apply said is left; there is nothing more to plan."""
    line = ["check", "--format", "json", str(scene.store), *scene.stated(scenario)]
    again = scene.run(*line)
    if again.status & 4 != ended.status & 4:
        counts = {}
        if again.out and not again.crash:
            counts = {name: count for name, count in json.loads(again.out)["counts"].items() if count}
        scene.fail("check-again", scene.shown(line), f"apply {ended.status}, check {again.status}: {counts}")
    first = {action["name"] for action in plan["actions"]}
    if "--preen" in scenario.line or first & NAMING:
        return  # what was not safe before may be safe now, and what a log is not is planned once it is
    (scene.out / "plan.json").unlink()
    more = _make_plan(scene, scenario)
    if more is not None and more["actions"]:
        scene.fail("plan-again", "plan …", f"{_actions(more)} after {_actions(plan)}")


def _outside(scene: Scene, beside: Mapping[str, Any], command: str) -> None:
    """Nothing but the store and areas beside it may be changed (the folder's own time is theirs).

    Not looked at: the times of inodes, which a hard link for the time of a repair changes.
    """
    now = {name: value[:3] for name, value in _beside(scene).items() if not name.startswith("store")}
    then = {name: value[:3] for name, value in beside.items() if name and not name.startswith("store")}
    if now != then:
        scene.fail("outside", command, differences(then, now))


def _beside(scene: Scene) -> dict[str, tuple[Any, ...]]:
    found = outer_state(scene.folder, ("out", "store"))
    found.pop("")
    return found


def _undo(scene: Scene, before: dict[str, tuple[Any, ...]], beside: Mapping[str, Any]) -> None:
    line = ["undo", str(scene.store)]
    ended = scene.run(*line)
    command = scene.shown(line)
    if ended.status:
        scene.fail("undo", command, f"exit status {ended.status}: {_last_line(ended.err)}")
        return
    after = full_state(scene.store)
    if after != before:
        scene.fail("undo", command, differences(before, after))
    left = [name for name in os.listdir(scene.folder) if name.startswith("store.")]  # noqa: PTH208
    if left:
        scene.fail("undo", command, f"leaves {left[0].partition('-')[0]}")
    _outside(scene, beside, command)


def _undo_after_work(scene: Scene, before: dict[str, tuple[Any, ...]], rng: random.Random) -> None:
    """A broker has written to the repaired store: undo gives every byte of before all the same."""
    work_as_a_broker(rng, scene.store)
    line = ["undo", "--force", str(scene.store)]
    ended = scene.run(*line)
    if ended.status:
        scene.fail("undo", scene.shown(line), f"exit status {ended.status}: {_last_line(ended.err)}")
    elif (after := full_state(scene.store)) != before:
        scene.fail("undo", scene.shown(line), differences(before, after))
    for path in scene.folder.glob("store.*"):  # what the broker wrote is kept there
        shutil.rmtree(path)


def _hostile_plan(scene: Scene, scenario: Scenario) -> int:
    """A plan that somebody changed: carried out within the store and taken back, or refused."""
    plan = _make_plan(scene, scenario)
    if plan is None:
        return 0
    path = scene.out / "plan.json"
    path.write_bytes(change_document(random.Random(scenario.seed), path.read_bytes(), scene.folder))
    scene.forged = True
    return _apply(scene, scenario, plan)


def _hostile_area(scene: Scene, scenario: Scenario) -> int:
    """What a repair left beside the store is changed; undo and apply keep inside, or refuse."""
    plan = _make_plan(scene, scenario)
    if plan is None or not plan["actions"]:
        return 0
    line = ["apply", str(scene.out / "plan.json"), *_options(scenario, plan)]
    before = full_state(scene.store)
    if not scene.run(*line).status & 1:
        return 0
    areas = [name for name in os.listdir(scene.folder) if name.startswith("store.before-")]  # noqa: PTH208
    rng = random.Random(scenario.seed)
    area = scene.folder / areas[0]
    file = area / rng.choice(
        ("journal.json",) * 3 + ("manifests.json", "result.json", "ledger.json", "plan.json")
    )
    sound = file.read_bytes()
    file.write_bytes(change_document(rng, sound, scene.folder))
    beside = _beside(scene)
    scene.forged = True
    ways = (["undo", str(scene.store)], line, ["undo", "--force", str(scene.store)])
    for arguments in ways[: rng.choice((1, 1, 3))]:
        scene.run(*arguments)
        _outside(scene, beside, f"{scene.shown(arguments)} with {file.name} changed")
    if area.exists() and file.name == "journal.json" and full_state(scene.store) != before:
        file.write_bytes(sound)
        for arguments in (["apply", line[1]], ["undo", str(scene.store)]):
            scene.run(*arguments)
    return 0


def _hostile_report(scene: Scene, scenario: Scenario) -> int:
    """A plan from a report that somebody changed: refused, or a plan like any other."""
    path = scene.out / "report.json"
    scene.run("check", str(scene.store), *scene.stated(scenario), "--format", "json", "-o", str(path))
    if not path.exists():
        return 0
    path.write_bytes(change_document(random.Random(scenario.seed), path.read_bytes(), scene.folder))
    scene.forged = True
    plan = _make_plan(scene, scenario, "--report", str(path))
    return 0 if plan is None else _apply(scene, scenario, plan)


def _hostile_rows(scene: Scene, scenario: Scenario) -> int:
    """dump | write, with rows that somebody changed: a store, or a refusal that leaves nothing."""
    rows = scene.out / "rows.jsonl"
    dump = ["dump", str(scene.store), "--format", "jsonl", "--body", "base64", "-o", str(rows)]
    scene.run(*dump)
    if not rows.exists():
        return 0
    rows.write_bytes(change_rows(random.Random(scenario.seed), rows.read_bytes()))
    made = scene.out / "made"
    line = [
        "write",
        str(rows),
        "--into",
        str(made),
        "--no-sync",
        "--broker-conf",
        str(scene.ground.subject.conf),
    ]
    ended = scene.run(*line)
    left = [name for name in os.listdir(scene.out) if "made" in name]  # noqa: PTH208
    if ended.status and left:
        scene.fail("outside", scene.shown(line), f"exit status {ended.status} leaves {left}")
    if not ended.status and not scenario.seed & 3:
        again = scene.run("check", str(made), "--format", "json")
        found = json.loads(again.out)["findings"] if again.out and not again.crash else []
        # rows say where their half messages were; a row that is gone, or is another one, moves these
        wrong = {one["rule"] for one in found if one["severity"] != "info"} - {"CL026", "CL035"}
        if again.status and (wrong or not found):
            scene.fail("control", "check …", f"of what write made: {again.status} {sorted(wrong)}")
    return ended.status


def _heal(scene: Scene, scenario: Scenario) -> int:
    """compare --heal with the sound store: plan, apply, check, undo."""
    path = scene.out / "plan.json"
    line = ["compare", str(scene.store), str(scene.ground.subject.path), "--heal", "-o", str(path)]
    scene.run(*line)
    if not path.exists():
        return 0
    plan = json.loads(path.read_bytes())
    return _apply(scene, scenario, plan, whole=False)


def _hostile_resume(scene: Scene, scenario: Scenario) -> int:
    """check --resume and --baseline with files that somebody changed."""
    rng = random.Random(scenario.seed)
    name, options = rng.choice((("--resume", ("--resume",)), ("--baseline", ("--write-baseline",))))
    path = scene.out / "kept.json"
    limit = ["--max-duration", "0.001s"] if name == "--resume" else []
    scene.run("check", str(scene.store), options[0], str(path), *limit)
    if not path.exists():
        return 0
    path.write_bytes(change_document(rng, path.read_bytes(), scene.folder))
    scene.forged = True
    beside = _beside(scene)
    ended = scene.run("check", str(scene.store), name, str(path))
    _outside(scene, beside, f"check {name}")
    return ended.status


STORIES: dict[str, Callable[[Scene, Scenario], int]] = {
    "read": _read,
    "repair": _repair,
    "hostile-plan": _hostile_plan,
    "hostile-area": _hostile_area,
    "hostile-report": _hostile_report,
    "hostile-rows": _hostile_rows,
    "hostile-resume": _hostile_resume,
    "heal": _heal,
}
