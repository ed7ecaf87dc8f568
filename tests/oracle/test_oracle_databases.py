"""Stores with queues in RocksDB, their databases damaged: what is said before a start, and what the real
store code then serves, of the store as it is and of the repaired one.

The stores are those of real brokers; `storeType` makes the store code what it was there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.law import assumed_names
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.rocks.lifting import kept_databases
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer.damage.run import damage_store

from tests.conftest import NIGHTLY, Directory, Document
from tests.oracle.broker import Answer, Job, QueueName, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import Row, problems, rows_served

pytestmark = pytest.mark.oracle

BY_DAY = "5.5.0-rocksdb-cq"
STORES = {BY_DAY: "5.5.0", "5.5.0-deleted-rocksdb": "5.5.0", "5.3.3-expired-rocksdb": "5.3.3"}
DAMAGES = (
    "database-current-missing",
    "database-current-flipped",
    "database-manifest-missing",
    "database-manifest-cut",
    "database-manifest-flipped",
    "database-table-missing",
    "database-table-cut",
    "database-log-missing",
    "gone",
)
"""Damages of the tool's own, and a directory that somebody deleted."""
SIZES = {
    "mappedFileSizeCommitLog": "commitlog_file_size",
    "mappedFileSizeConsumeQueue": "consumequeue_file_size",
    "maxHashSlotNum": "slot_count",
    "maxIndexNum": "entry_count",
}
MAINTAINED = ("RMQ_SYS_", "rmq_sys_", "SCHEDULE_TOPIC", "TRANS_CHECK")
"""Topics that a running broker itself writes to."""
Rows = dict[QueueName, list[Row]]


def job_of(store: Path, document: Mapping[str, Any]) -> Job:
    """A start with the settings of the broker that wrote the store."""
    config = document["config"]
    sizes: dict[str, Any] = {SIZES[name]: int(value) for name, value in config.items() if name in SIZES}
    queues = sorted({(message.topic, message.queue_id) for message in iter_messages(open_store(store))})
    settings: dict[str, Any] = {"storeType": "defaultRocksDB"}
    settings["maxMessageSize"] = int(config["maxMessageSize"])
    if config.get("useSeparateStorePathForRocksdbCQ") == "true":
        settings["useSeparateStorePathForRocksdbCQ"] = True
    return Job(store, Geometry(**sizes), settings=settings, queues=tuple(queues))


def conf_of(path: Path, document: Mapping[str, Any]) -> Path:
    config = document["config"]
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return path


def served(answer: Answer) -> Rows:
    """What consumers get of the topics of clients."""
    found = rows_served(answer.final)
    return {name: rows for name, rows in found.items() if not name[0].startswith(MAINTAINED)}


def damaged(damage: str, source: Path, into: Path) -> Path:
    """A copy with the damage."""
    if damage != "gone":
        damage_store(source, into, [damage], 7, write_truth=False)
        return into
    shutil.copytree(source, into)
    separate = into / "consumequeue_rocksdb"
    shutil.rmtree(separate if separate.exists() else into / "consumequeue")
    return into


@dataclass(frozen=True, slots=True)
class Tried:
    """A damage, the verdict on it, a copy to start as it is, and one that is repaired if there was a plan."""

    damage: str
    started: Path
    mended: Path
    verdict: Verdict
    was_repaired: bool


def tried(damage: str, source: Path, place: Path, conf: Path, version: str) -> Tried:
    """Damage a copy, judge it, repair another one."""
    place.mkdir()
    started = damaged(damage, source, place / "started")
    mended = Path(shutil.copytree(started, place / "mended"))
    opened = open_store(mended, version=version, broker_conf=conf)
    with kept_databases():
        report = check_store(opened, CheckOptions(level="full", jobs=1))
        verdict = judge_store(opened, report, version=version)
        plan = make_plan(opened, report)
    if plan.actions:
        assert not apply_plan(plan, keep=False, assume=assumed_names(plan.actions)).problem
    return Tried(damage, started, mended, verdict, bool(plan.actions))


@pytest.mark.parametrize("name", [name for name in STORES if NIGHTLY or name == BY_DAY])
def test_databases_before_and_after_the_repair(
    name: str, needs_broker: Needs, real_dir: Directory, real_manifest: Document, tmp_path: Path
) -> None:
    """The repaired store serves everything; the damaged one only if that was said."""
    version, document = STORES[name], real_manifest(name)
    needs_broker(version)
    conf = conf_of(tmp_path / "broker.conf", document)
    trials = [tried(damage, real_dir(name), tmp_path / damage, conf, version) for damage in DAMAGES]
    stores = [Path(shutil.copytree(real_dir(name), tmp_path / "sound"))]
    stores += [store for trial in trials for store in (trial.started, trial.mended)]
    sound, *answers = run_jobs(version, [job_of(store, document) for store in stores])
    before = served(sound)
    assert before
    for trial, as_it_is, mended in zip(trials, answers[::2], answers[1::2], strict=True):
        unharmed = as_it_is.loaded and served(as_it_is) == before
        assert trial.was_repaired or (trial.verdict.may_start and unharmed), trial.damage
        assert unharmed or trial.verdict.state != "healthy", trial.damage
        assert mended.loaded, (trial.damage, mended.refusal)
        after = served(mended)  # of a killed broker's store, more than its start had left
        assert {name for name, rows in before.items() if not {*rows} <= {*after.get(name, [])}} == set(), (
            trial.damage
        )
        assert problems(trial.mended, version) == {}, trial.damage
