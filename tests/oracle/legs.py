"""A workload on one version, end to end: what a check says of its stores, and what real brokers then do.

clean     stopped in order: a check finds nothing above info
killed    in the middle of sending: what is said of the start happens
restarted the started broker answers pulls, keys, tags and times as is said
repaired  a damaged copy, repaired by `fix`, serves all messages that the plan promised

Each leg gives what is not as said, in words.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.formats.record import Record
from rocketfsck.query import BrokerView
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Severity, check_store, describe
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.damage import damage_store

from tests.oracle.asking import answered_otherwise, keys_answered_otherwise
from tests.oracle.broker import Answer, Ask, Key, QueueName
from tests.oracle.groups import Acknowledged, GroupAnswer, GroupJob, Node, Questions, run_groups
from tests.oracle.judging import keys_of, rows_served
from tests.oracle.starts import Predicted, differences, predict, sizes_of
from tests.oracle.trials import records_of
from tests.oracle.verdicts import Message, records_in
from tests.oracle.workloads import STORM, Workload, store_settings

KEYS_ASKED = 60
TIMES_ASKED = 12
PULLS_OF_A_QUEUE = 60
SEED = 5
SHOWN = 5

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Made:
    """A store that brokers wrote, and what a start on it is to be asked. `records` are those of its log by
    SHA-256."""

    root: Path
    conf: Path
    version: str
    settings: Mapping[str, Any]
    acknowledged: tuple[Acknowledged, ...]
    records: Mapping[str, Record]
    questions: Questions

    @property
    def log_file_size(self) -> int:
        size: int = self.settings["mappedFileSizeCommitLog"]
        return size


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of a store before a start."""

    made: Made
    verdict: Verdict
    predicted: Predicted
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A damaged copy and what `fix` came to: records lost by the plan, and hashes of those that the damaged
    log had."""

    made: Made
    damage: str
    status: int
    lost_count: int
    present: frozenset[str]
    printed: str


def legs_of(workload: Workload, version: str, place: Path) -> dict[str, list[str]]:
    """What is not as said, by leg; {} is to be expected."""
    clean, killed = _written(workload, version, place)
    said = {"clean": said_of(clean), "killed": said_of(killed)}
    repairs = [_repaired(clean, damage, place / damage.replace(":", "-")) for damage in workload.damages]
    said |= {repair.damage: said_of(repair.made) for repair in repairs}
    starts = [
        _copy(item.made, item.made.root.with_name(f"{item.made.root.name}-started")) for item in said.values()
    ]
    answers = run_groups(version, [_restart(workload, made) for made in starts])
    started = dict(zip(said, zip(answers, starts, strict=True), strict=True))
    otherwise = {
        name: _started_otherwise(said[name], answer, made.root) for name, (answer, made) in started.items()
    }
    found = {
        "clean": _not_healthy(said["clean"]),
        "restarted": otherwise["clean"] + _not_kept(clean, started["clean"][0]),
        "killed": [
            *_not_killed(said["killed"]),
            *otherwise["killed"],
            *_not_kept(killed, started["killed"][0]),
        ],
    }
    sound = started["clean"][0]
    for repair in repairs:
        after = started[repair.damage][0]
        found[repair.damage] = _not_brought_back(repair, after, sound) + otherwise[repair.damage]
    return {leg: texts for leg, texts in found.items() if texts}


def _written(workload: Workload, version: str, place: Path) -> tuple[Made, Made]:
    roots = place / "clean", place / "killed"
    jobs = [
        GroupJob((_node(workload, version, roots[0]),), workload.works),
        GroupJob((_node(workload, version, roots[1]),), (*workload.works, STORM), kill=True),
    ]
    clean, killed = (
        _made(workload, version, root, answer)
        for root, answer in zip(roots, run_groups(version, jobs), strict=True)
    )
    return clean, killed


def _node(workload: Workload, version: str, root: Path) -> Node:
    return Node(root, workload.broker, store_settings(workload, version))


def _made(workload: Workload, version: str, root: Path, answer: GroupAnswer) -> Made:
    assert answer.refusal is None, answer.refusal
    settings = store_settings(workload, version)
    conf = root.with_suffix(".conf")
    conf.write_text(
        "".join(f"{name}={_text(value)}\n" for name, value in {**workload.broker, **settings}.items())
    )
    records = dict(records_of(root, settings["mappedFileSizeCommitLog"]))
    made = Made(root, conf, version, settings, answer.acknowledged, records, Questions(Ask(())))
    return _with_questions(made)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_questions(made: Made) -> Made:
    dialect = open_store(made.root, version=made.version, broker_conf=made.conf).dialect
    keys: list[Key] = sorted(keys_of(made.records.values(), dialect))
    times = sorted({record.store_timestamp for record in made.records.values()})
    some = tuple(time + more for time in _evenly(times, TIMES_ASKED) for more in (-1, 0, 1))
    ask = Ask((-1, 0, *some, 1 << 50), max_nums=(1, 32), most=PULLS_OF_A_QUEUE)
    return Made(
        made.root,
        made.conf,
        made.version,
        made.settings,
        made.acknowledged,
        made.records,
        Questions(ask, tuple(_evenly(keys, KEYS_ASKED))),
    )


def _evenly(items: Sequence[Item], count: int) -> list[Item]:
    """So many of the items, from the first on in equal steps."""
    step = max(len(items) // count, 1)
    return list(islice(items[::step], count))


def said_of(made: Made) -> Said:
    """Check the store and predict its start."""
    store = open_store(made.root, version=made.version, broker_conf=made.conf)
    report = check_store(store, CheckOptions(level="full", jobs=1))
    above = tuple(
        f"{finding.rule} {finding.where.file}: {describe(finding)}"
        for finding in report.findings
        if RULES[finding.rule].severity > Severity.INFO
    )
    verdict = judge_store(store, report, version=made.version)
    return Said(made, verdict, predict(made.root, made.version, made.conf), above)


def _not_healthy(said: Said) -> list[str]:
    """Of a store that was stopped in order; a check by somebody who states nothing, too."""
    found = list(said.findings)
    if headline_of(said.verdict) != "Healthy: a broker may be started.":
        found.append(headline_of(said.verdict))
    done = _rocketfsck("check", said.made.root)
    first = done.stdout.partition("\n")[0]
    if (done.returncode, first) != (0, "Healthy: a broker may be started."):
        found.append(f"check: status {done.returncode}: {done.stdout} {done.stderr}")
    return found


def _not_killed(said: Said) -> list[str]:
    """Of a store whose broker was killed: a start is said to put it in order."""
    if said.verdict.state == "unclean" and said.verdict.may_start:
        return []
    return [f"{said.verdict.state}: {headline_of(said.verdict)}", *said.findings]


def _rocketfsck(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocketfsck", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _copy(made: Made, root: Path) -> Made:
    shutil.copytree(made.root, root)
    return _moved(made, root)


def _moved(made: Made, root: Path) -> Made:
    return Made(root, made.conf, made.version, made.settings, made.acknowledged, made.records, made.questions)


def _repaired(made: Made, damage: str, root: Path) -> Repaired:
    """Damage a copy and have it repaired."""
    damage_store(
        made.root, root, [damage], SEED, version=made.version, broker_conf=made.conf, write_truth=False
    )
    present = records_in(root, made.log_file_size, made.records)
    stated = ("--broker-conf", made.conf, "--broker-version", made.version)
    done = _rocketfsck("fix", root, "--yes", "--format", "json", *stated)
    document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    actions = (document.get("plan") or {}).get("actions", ())
    lost = sum(loss["count"] for action in actions for loss in action["losses"] if loss["what"] == "record")
    return Repaired(_moved(made, root), damage, done.returncode, lost, present, done.stdout + done.stderr)


def _restart(workload: Workload, made: Made) -> GroupJob:
    node = _node(workload, made.version, made.root)
    return GroupJob((node,), questions=made.questions)


def _started_otherwise(said: Said, started: GroupAnswer, root: Path) -> list[str]:
    """What the start on a copy at `root` did, and what the broker answered, otherwise than is said."""
    made = said.made
    answer = started.answers[0] if started.answers else None
    before = None if answer is None else answer.state
    found = differences(said.predicted, Answer(started.refusal is None, started.refusal, before), root)
    if answer is None:
        return found
    store = open_store(made.root, version=made.version, broker_conf=made.conf)
    with BrokerView(store, made.version, state="started") as broker:
        pulls = answered_otherwise(broker, answer.asked, made.questions.ask.times)
        keys = keys_answered_otherwise(broker, {} if _has_namesakes(said, root) else answer.state.keys)
        found += _some(f"asked {where}: answered {theirs}, said {ours}" for where, theirs, ours in pulls)
        found += _some(f"asked {where}: answered {theirs}, said {ours}" for where, theirs, ours in keys)
    return found


def _has_namesakes(said: Said, root: Path) -> bool:
    """Whether the start gave two index files one name, the millisecond: what the second had is lost."""
    wanted = sum(item.change == "created" and item.file[-1] == "?" for item in said.predicted.start.files)
    made = {name for name in sizes_of(root).keys() - said.predicted.sizes.keys() if name.startswith("index/")}
    return len(made) < wanted


def _some(texts: Iterable[str]) -> list[str]:
    """The first of them, and how many there are."""
    every = list(texts)
    return [*every[:SHOWN], f"and {len(every) - SHOWN} more"] if len(every) > SHOWN else every


def _not_kept(made: Made, started: GroupAnswer) -> list[str]:
    """Messages that the broker acknowledged and does not serve after its start."""
    served = _places_served(started)
    lost = (
        item for item in made.acknowledged if ((item.topic, item.queue_id), item.queue_offset) not in served
    )
    return _some(f"acknowledged and not served: {item}" for item in lost)


def _places_served(started: GroupAnswer) -> set[tuple[QueueName, int]]:
    return {
        (name, message.queue_offset)
        for node in started.answers
        if node is not None
        for name, queue in node.state.queues.items()
        for message in queue.messages
        if message.status == "FOUND"
    }


def _served(answer: GroupAnswer) -> frozenset[Message]:
    node = answer.answers[0]
    assert node is not None
    return frozenset(
        (queue, (row[1], row[2], row[3])) for queue, rows in rows_served(node.state).items() for row in rows
    )


def _not_brought_back(repaired: Repaired, started: GroupAnswer, sound: GroupAnswer) -> list[str]:
    """What a repair did not bring back: messages whose records the damaged log had, but for those that the
    plan gave up."""
    if repaired.status != 1:
        return [f"fix: status {repaired.status}: {repaired.printed}"]
    if started.refusal is not None:
        return [f"the broker does not start after the repair: {started.refusal}"]
    left = _served(sound) - _served(started)
    missing = sorted(message for message in left if message[1][2] in repaired.present)
    if len(missing) > repaired.lost_count:
        return [f"{len(missing)} messages missing, {repaired.lost_count} given up: {missing[:SHOWN]}"]
    return []
