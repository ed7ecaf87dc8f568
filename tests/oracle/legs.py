"""A workload on one version, end to end: what a check says of its stores, and what real brokers then do.

clean     stopped in order: a check finds nothing above info
killed    in the middle of sending: what is said of the start happens
restarted the started broker answers pulls, keys, tags and times as is said
repaired  a damaged copy, repaired by `fix`, serves all messages that the plan promised

Each leg gives what is not as said, in words.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.formats.properties import KEYS, parse_properties
from rocketfsck.query import BrokerView
from rocketfsck.repair.state import LEFT_BY_A_KILL
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify import CheckOptions, Severity, check_store, describe
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.damage import damage_store

from tests.oracle import verdicts
from tests.oracle.asking import answered_otherwise, keys_answered_otherwise
from tests.oracle.broker import Answer, QueueName
from tests.oracle.groups import GroupAnswer, run_groups
from tests.oracle.judging import rows_served
from tests.oracle.starts import Predicted, differences, predict, sizes_of
from tests.oracle.trials import UNSEEN
from tests.oracle.verdicts import Message, Truth, fit_of, reachable, records_in
from tests.oracle.workloads import Workload
from tests.oracle.written import ENDS, Made, write

_FORCED = re.compile(r"--only (\S+) forces the repair")
SEED = 5
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of a store before a start."""

    made: Made
    verdict: Verdict
    predicted: Predicted
    findings: tuple[str, ...]
    rules: frozenset[str]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A damaged copy and what `fix` came to: records lost by the plan, and hashes of those that the damaged
    log had."""

    made: Made
    status: int
    lost_count: int
    present: frozenset[str]
    printed: str


def legs_of(workload: Workload, version: str, place: Path) -> dict[str, list[str]]:
    """What is not as said, by leg; {} is to be expected."""
    made = dict(zip(ENDS, write(workload, version, place), strict=True))
    said = _said_of_all(made)
    sound = made["clean"][0]
    repairs = {damage: _repaired(sound, damage, place / _folder(damage)) for damage in workload.damages}
    said |= {damage: said_of(repair.made) for damage, repair in repairs.items()}
    copies = [item.made.copied(place / f"{_folder(name)}-started") for name, item in said.items()]
    started = run_groups(version, [copy.restart() for copy in copies], ipv6=workload.ipv6)
    answers = dict(zip(said, started, strict=True))
    found: dict[str, list[str]] = {}
    for (name, item), copy in zip(said.items(), copies, strict=True):
        if name in repairs:
            found[name] = _not_healthy(item)
        elif not workload.disk_size:
            found[name] = _ENDED[name.split("-")[0]](item)
        found[f"{name} started"] = [
            *_judged_otherwise(item, answers[name], copy.root),
            *_started_otherwise(item, answers[name], copy.root),
        ]
        if name in repairs:
            found[f"{name} started"] += _not_brought_back(repairs[name], answers[name], answers["clean-0"])
        elif not name.startswith("refusing") and not _gives_again(item):
            found[f"{name} started"] += _not_kept(item.made, answers[name])
    return {leg: texts for leg, texts in found.items() if texts}


def _folder(name: str) -> str:
    return name.replace(":", "-")


def _said_of_all(made: Mapping[str, Sequence[Made]]) -> dict[str, Said]:
    """What is said of each store. One that its brokers left so that the next start is refused is repaired,
    and a copy shows whether it is refused."""
    said: dict[str, Said] = {}
    for end, nodes in made.items():
        for number, node in enumerate(nodes):
            before = said_of(node)
            if before.verdict.state == "refused":
                copy = node.copied(node.root.with_name(f"refusing-{end}-{number}"))
                said[f"refusing-{end}-{number}"] = said_of(copy)
                _rocketfsck("fix", node.root, "--yes", *_stated(node))
                before = said_of(node)
            said[f"{end}-{number}"] = before
    return said


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
    rules = frozenset(text.split()[0] for text in above)
    return Said(made, verdict, predict(made.root, made.version, made.conf), above, rules)


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
    """Of a store whose broker was killed: a start is said to put it in order. Where it is said to give queue
    offsets again, what the broker then gives is compared instead (`_judged_otherwise`)."""
    besides = said.rules & said.made.workload.after_kill
    if said.verdict.state == "unclean" or _gives_again(said):
        return []
    if besides and said.verdict.may_start and said.rules <= LEFT_BY_A_KILL | besides:
        return []
    return [f"{said.verdict.state}: {headline_of(said.verdict)}", *said.findings]


def _gives_again(said: Said) -> bool:
    """Whether a start is said to use queue offsets twice: brokers do not build all rows of a database again
    that a kill took (5.5.0)."""
    (start,) = said.verdict.starts
    return not said.verdict.may_start and start.reissued_count > 0


_ENDED: Mapping[str, Callable[[Said], list[str]]] = {
    "clean": _not_healthy,
    "killed": _not_killed,
    "refusing": lambda _: [],
}
"""What is wrong with what is said of a store, by how its brokers ended."""


def _stated(made: Made) -> tuple[str | Path, ...]:
    return "--broker-conf", made.conf, "--broker-version", made.version


def _rocketfsck(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocketfsck", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _repaired(made: Made, damage: str, root: Path) -> Repaired:
    """Damage a copy and have it repaired; by name, too, where the first answer says that this is needed."""
    damage_store(
        made.root, root, [damage], SEED, version=made.version, broker_conf=made.conf, write_truth=False
    )
    present = records_in(root, made.log_file_size, made.records)
    fix = "fix", root, "--yes", "--format", "json", *_stated(made)
    done = _rocketfsck(*fix)
    lost = _lost_count(done.stdout)
    if forced := set(_FORCED.findall(done.stdout)):  # an index that a later version built is left alone
        done = _rocketfsck(*fix, *chain.from_iterable(("--only", name) for name in sorted(forced)))
        lost += _lost_count(done.stdout)
    return Repaired(made.at(root), done.returncode, lost, present, done.stdout + done.stderr)


def _lost_count(printed: str) -> int:
    """The records that a plan gave up."""
    document = json.loads(printed) if printed.startswith("{") else {}
    actions = (document.get("plan") or {}).get("actions", ())
    return sum(loss["count"] for action in actions for loss in action["losses"] if loss["what"] == "record")


def _judged_otherwise(said: Said, started: GroupAnswer, root: Path) -> list[str]:
    """In what the first line and its numbers are not what became of the messages, on a copy at `root`."""
    made = said.made
    compacted = _compacted(made)
    before = reachable(made.root, made.log_file_size, made.records) - compacted.superseded
    after = None if started.refusal is not None else compacted.as_sent(started)
    present = records_in(made.root, made.log_file_size, made.records)
    destroyed = present - records_in(root, made.log_file_size, made.records)
    counted = destroyed & {message[1][2] for message in before}
    truth = Truth(before, before, after, counted, present, _given_again(made, started, present - destroyed))
    (start,) = said.verdict.starts
    fit = fit_of(said.verdict.may_start, truth, takes_more=any(getattr(start, name) for name in UNSEEN))
    found = verdicts.differences(start, truth)
    return found if fit == "right" else [f"{fit}: {headline_of(said.verdict)}", *found]


def _given_again(made: Made, started: GroupAnswer, left: Collection[str]) -> int:
    """Queue offsets of acknowledged messages' queues that records of the log have and that the started broker
    gives out again."""
    node = started.answers[0] if started.answers else None
    if node is None:
        return 0
    ends = dict.fromkeys(((item.topic, item.queue_id) for item in made.acknowledged), 0)
    for record in (made.records[sha256] for sha256 in left):
        name = record.topic.decode(), record.queue_id
        if name in ends:
            ends[name] = max(ends[name], record.queue_offset + 1)
    return verdicts.given_again(ends, node.state.queues)


@dataclass(frozen=True, slots=True)
class _Compacted:
    """Messages of compaction topics, by queue and queue offset and with the hash of their bodies; and those
    that a later message with their key supersedes: a broker may take them at any time.

    A broker serves such a topic from copies, whose records say another physicalOffset.
    """

    sent: Mapping[tuple[QueueName, int], tuple[Message, str]]
    superseded: frozenset[Message]

    def as_sent(self, answer: GroupAnswer) -> frozenset[Message]:
        """What a broker served, with the messages of the log in place of their copies."""
        node = answer.answers[0]
        assert node is not None
        found = set(_served(answer))
        for name, queue in node.state.queues.items():
            for item in queue.messages:
                fields = item.fields or {}
                message, body = self.sent.get((name, fields.get("recordQueueOffset", -1)), (None, ""))
                if message is not None and fields["bodySha256"] == body:
                    found.add(message)
        return frozenset(found)


def _compacted(made: Made) -> _Compacted:
    topics = {path.name for path in made.root.glob("compaction/compactionLog/*")}
    parser = open_store(made.root, version=made.version, broker_conf=made.conf).dialect.property_parser
    sent: dict[tuple[QueueName, int], tuple[Message, str]] = {}
    newest: dict[tuple[QueueName, str], Message] = {}
    for sha256, record in made.records.items():  # in the order of the log
        name = record.topic.decode(), record.queue_id
        if name[0] in topics:
            message = name, (record.physical_offset, record.total_size, sha256)
            sent[name, record.queue_offset] = message, hashlib.sha256(record.body).hexdigest()
            key = (parse_properties(record.properties, parser) or {})[KEYS]
            newest[name, key] = message
    return _Compacted(sent, frozenset(message for message, _ in sent.values()) - set(newest.values()))


def _started_otherwise(said: Said, started: GroupAnswer, root: Path) -> list[str]:
    """What the start on a copy at `root` did, and what the broker answered, otherwise than is said."""
    made = said.made
    answer = started.answers[0] if started.answers else None
    if answer is not None and made.workload.moves and said.verdict.state == "unclean":
        return []
    before = None if answer is None else answer.state
    found = differences(said.predicted, Answer(started.refusal is None, started.refusal, before), root)
    if answer is None:
        return found
    asked = answer.asked.values()
    if not (asked and answer.state.keys and all(queue.pulls and queue.times for queue in asked)):
        found.append("nothing was asked")
    with (
        lifted(open_store(made.root, version=made.version, broker_conf=made.conf)) as lifting,
        BrokerView(lifting.store, made.version) as broker,
    ):
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
    """Messages that the brokers acknowledged and that this one does not serve after its start."""
    if not made.keeps:
        return []
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
