"""A store, a damage, a version: what is said before a start, and what the real store code then does.

Scenario, version  -->  SoundStore  (written, gone through by the real code, some topics deleted)
SoundStore, damage -->  Trial       (verdict and numbers; a copy to start, a copy to repair and start)
Trial, answers     -->  Truth       (what consumers could get, and what they get)
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.errors import FormatError, RocketfsckError
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.record import Record, decode_record
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.plan.law import assumed_names
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.testing.conformance import broker_conf_of
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer import EndState

from tests.oracle.broker import Answer, Job, Put, State, run_jobs
from tests.oracle.handmade import DAMAGES
from tests.oracle.judging import rows_served
from tests.oracle.scenarios import DELAY_LEVELS, Scenario, appended, options_of, settings_of, write
from tests.oracle.verdicts import (
    Evidence,
    Message,
    Truth,
    account_differences,
    differences,
    evidence_of,
    fit_of,
    given_again,
    records_in,
)

DELETED = ("Topic2", "Topic3")
"""Topics that are deleted; the real code is handed messages of the first one afterwards."""
UNSEEN = (
    "queues_destroyed",
    "lost_key_count",
    "shifted_count",
    "reissued_count",
    "phantom_count",
    "unread_part_count",
)
"""What a start takes beside messages that consumers could get."""
UNTOLD = frozenset({"config-removed", "topics-half-written", "config-removed-and-queue-removed"})
"""Damages after which nothing tells which topics were deleted: numbers that depend on it are not compared."""
REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"


@dataclass(frozen=True, slots=True)
class SoundStore:
    """A store as the real code left it. `records` are those of its log by SHA-256, `served` what consumers
    got of it."""

    root: Path
    conf: Path
    version: str
    scenario: Scenario
    records: Mapping[str, Record]
    served: frozenset[Message]

    def job(self, store: Path) -> Job:
        """A start of the real code on a store that was made of this one."""
        options = options_of(self.scenario, self.version, EndState.CLEAN)
        return Job(
            store,
            options.geometry,
            settings=settings_of(self.scenario, options),
            batch_topics=tuple(sorted(options.batch_topics)),
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """A damaged store, what was said of it, and what its repair came to.

    `started` and `repaired` are copies, for the start as it is and for the start after the repair. `report`
    is None where nothing was to be repaired, or the repair was refused: `obstacle` then says why.
    """

    sound: SoundStore
    name: str
    started: Path
    repaired: Path
    verdict: Verdict
    evidence: Evidence
    report: ApplyReport | None
    given_up: int
    obstacle: str = ""


def pops(dialect_has_pop: bool) -> tuple[Put, ...]:
    """What a broker writes while consumers pop: check points and acknowledgements, and a message again."""
    if not dialect_has_pop:
        return ()
    texts = [("ck", b'{"bm":0,"c":"group","d":[0],"n":1,"q":0,"so":7,"t":"Topic0"}'), ("ack", b'{"ao":7}')]
    puts = [Put(REVIVE_TOPIC, text, number, {"TAGS": tag}) for number, (tag, text) in enumerate(texts * 4)]
    return (*puts, Put("%RETRY%group0_Topic0", b"popped again", 0, {"KEYS": "again"}))


def sound_store(scenario: Scenario, version: str, place: Path, end: EndState = EndState.CLEAN) -> SoundStore:
    """Write a store, delete topics, let the real code append, and see what it serves."""
    place.mkdir(parents=True)
    root = place / "sound"
    written = write(scenario, version, EndState.CLEAN, root)
    options = written.options
    conf = place / "broker.conf"
    conf.write_text(broker_conf_of(options.geometry) + f"messageDelayLevel={DELAY_LEVELS}\n")
    if options.multi_dispatch:
        with conf.open("a") as lines:
            lines.write("enableLmq=true\nenableMultiDispatch=true\n")
    for topic in DELETED:
        shutil.rmtree(root / "consumequeue" / topic)
    made = SoundStore(root, conf, version, scenario, {}, frozenset())
    puts = (*appended(options), *pops(not version.startswith("4.")))
    (answer,) = run_jobs(version, [replace(made.job(root), append=puts, kill=end is EndState.KILLED)])
    assert answer.loaded, answer.refusal
    for topic in DELETED[1:]:  # a start dispatches the log's last records again, those of deleted topics, too
        shutil.rmtree(root / "consumequeue" / topic, ignore_errors=True)
    left = {name: queue for name, queue in answer.final.queues.items() if name[0] not in DELETED[1:]}
    answer = replace(answer, after=replace(answer.final, queues=left))
    _configure(root, answer.final)
    return replace(
        made, records=dict(records_of(root, options.geometry.commitlog_file_size)), served=served(answer)
    )


def served(answer: Answer) -> frozenset[Message]:
    """What consumers get of every queue."""
    return frozenset(
        (queue, (row[1], row[2], row[3])) for queue, rows in rows_served(answer.final).items() for row in rows
    )


def records_of(store: Path, file_size: int) -> Iterator[tuple[str, Record]]:
    """The records of a log by SHA-256, of each file up to what is no sound one."""
    for path in sorted((store / "commitlog").iterdir()):
        data, pos = path.read_bytes(), 0
        while pos + 8 <= min(len(data), file_size):
            size, magic = struct.unpack_from(">ii", data, pos)
            if not size or magic == MAGIC_BLANK:
                break
            found = data[pos : pos + size]
            try:
                record = decode_record(found)
            except FormatError:
                break
            yield hashlib.sha256(found).hexdigest(), record
            pos += size


def _configure(root: Path, state: State) -> None:
    """The config files of a broker with these queues: topics, and a group that consumed some of each."""
    path = root / "config" / "topics.json"
    document = json.loads(path.read_text())
    table = document["topicConfigTable"]
    pattern = table["Topic0"]
    for topic in {topic for topic, _ in state.queues} - table.keys():
        if not topic.startswith("%LMQ%"):
            table[topic] = {**pattern, "topicName": topic}
    for topic in table.keys() - {topic for topic, _ in state.queues}:
        del table[topic]
    for topic, queue_id in state.queues:
        if topic in table:
            count = max(table[topic]["readQueueNums"], queue_id + 1)
            table[topic] |= {"readQueueNums": count, "writeQueueNums": count}
    path.write_text(json.dumps(document))
    offsets: dict[str, dict[str, int]] = {}
    for (topic, queue_id), queue in state.queues.items():
        if not topic.startswith(("%", "RMQ_", "SCHEDULE", "rmq_")):
            middle = (queue.min_offset + queue.max_offset) // 2
            offsets.setdefault(f"{topic}@group0", {})[str(queue_id)] = middle
    _write(root, "consumerOffset.json", {"offsetTable": offsets})
    group = {"groupName": "group0", "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    _write(root, "subscriptionGroup.json", {"subscriptionGroupTable": {"group0": group}})


def _write(root: Path, name: str, document: object) -> None:
    for suffix in ("", ".bak"):
        (root / "config" / f"{name}{suffix}").write_text(json.dumps(document))


def tried(sound: SoundStore, name: str, place: Path) -> Trial:
    """Do one of the `DAMAGES` to a copy, hear what is said of it, repair another copy."""
    damaged, started, repaired = (place / which for which in ("damaged", "started", "repaired"))
    place.mkdir(parents=True)
    shutil.copytree(sound.root, damaged)
    DAMAGES[name](damaged)
    shutil.copytree(damaged, started)
    shutil.copytree(damaged, repaired)
    opened = open_store(repaired, version=sound.version, broker_conf=sound.conf)
    report = check_store(opened, CheckOptions(level="full", jobs=1))
    verdict = judge_store(opened, report, version=sound.version)
    evidence = evidence_of(
        damaged, sound.records, sound.served, sound.job(damaged).geometry.commitlog_file_size
    )
    plan, done, obstacle, given_up = None, None, "", 0
    try:
        plan = held_plan(make_plan(opened, report), opened, report)
        given_up = sum(
            loss.count for action in plan.actions for loss in action.losses if loss.what == "record"
        )
        if plan.actions:
            done = apply_plan(plan, keep=False, assume=assumed_names(plan.actions))
            obstacle = done.problem
    except RocketfsckError as error:
        obstacle = f"{type(error).__name__}: {error}"
    return Trial(sound, name, started, repaired, verdict, evidence, done, given_up, obstacle)


def truth_of(trial: Trial, store: Path, answer: Answer) -> Truth:
    """What the start of a trial, on one of its copies, came to."""
    sound = trial.sound
    size = sound.job(store).geometry.commitlog_file_size
    places = trial.evidence.present
    left = records_in(store, size, {name: sound.records[name] for name in places})
    return Truth(
        sound.served,
        trial.evidence.before,
        served(answer) if answer.loaded else None,
        frozenset(left_out(trial, places - left)),
        places,
        reissued(store, size, answer, sound),
        trial.evidence.log_start,
    )


def left_out(trial: Trial, records: Collection[str]) -> set[str]:
    """Those of the records that consumers were served when the store was sound."""
    return {message[1][2] for message in trial.sound.served} & {*records}


def reissued(store: Path, size: int, answer: Answer, sound: SoundStore) -> int:
    """Queue offsets that records of the log have and that the store gives out again, as it stands now."""
    if not answer.loaded:
        return 0
    deleted = {record.topic.decode() for record in sound.records.values()} - {
        name for (name, _), _ in sound.served
    }
    left = records_in(store, size, sound.records)
    ends: dict[tuple[str, int], int] = {}
    for sha256 in left:
        record = sound.records[sha256]
        if record.physical_offset >= answer.final.max_offset:
            continue
        name = record.topic.decode(), record.queue_id
        if (
            name[0] not in deleted
            and (name, (record.physical_offset, record.total_size, sha256)) in sound.served
        ):
            ends[name] = max(ends.get(name, 0), record.queue_offset + 1)
    return given_again(ends, answer.final.queues)


def said_otherwise(trial: Trial, truth: Truth) -> list[str]:
    """In what the first line is rosier or darker than what happened, and which numbers are others."""
    verdict = trial.verdict
    (start,) = verdict.starts
    more = bool(verdict.lost_configs) or any(getattr(start, name) for name in UNSEEN)
    fit = fit_of(verdict.may_start, truth, takes_more=more)
    found = [] if fit in ("right", "unsaid") else [f"{fit}: said {verdict.state}, {truth.happened}"]
    if trial.name in UNTOLD:
        return found
    found += differences(start, truth)
    if verdict.account is not None:
        found += account_differences(verdict.account, truth)
    return found


def not_brought_back(trial: Trial, repaired: Truth) -> list[str]:
    """Messages whose records are there and that consumers do not get after the repair and a start, where the
    plan named no loss and said of nothing that it leaves it."""
    left = trial.report is None or bool(trial.report.left or trial.report.refused_actions)
    found = [f"refused: {trial.obstacle}"] if trial.obstacle else []
    if repaired.after is None:
        return found if left else [*found, "the broker does not start"]
    more = len(repaired.missing) - trial.given_up
    return [*found, f"{more} messages missing"] if more > 0 and not left else found
