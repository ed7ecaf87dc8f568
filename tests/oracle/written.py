"""Stores that real brokers wrote for a workload, what each is to be asked after a start; copies of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rocketfsck.formats.record import Record
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.lifting import lifted

from tests.oracle.broker import Ask, Key
from tests.oracle.groups import Acknowledged, GroupAnswer, GroupJob, Node, Questions, Settings, run_groups
from tests.oracle.judging import keys_of
from tests.oracle.trials import records_of
from tests.oracle.workloads import STORM, Workload, broker_settings, store_settings

KEYS_ASKED = 60
TIMES_ASKED = 12
PULLS_OF_A_QUEUE = 60
BLOCK = 4096

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Made:
    """A store that brokers wrote, and what a start on it is to be asked. `records` are those of its log by
    SHA-256. `keeps` says whether it has all that was acknowledged."""

    root: Path
    conf: Path
    workload: Workload
    version: str
    acknowledged: tuple[Acknowledged, ...]
    records: Mapping[str, Record]
    questions: Questions
    keeps: bool

    @property
    def log_file_size(self) -> int:
        size: int = store_settings(self.workload, self.version)["mappedFileSizeCommitLog"]
        return size

    def restart(self) -> GroupJob:
        """A start of one broker on the store."""
        return GroupJob((_node(self.workload, self.version, self.root, ({}, {})),), questions=self.questions)

    def copied(self, root: Path) -> Made:
        """The same store at another place."""
        copy_with_holes(self.root, root)
        return self.at(root)

    def at(self, root: Path) -> Made:
        return replace(self, root=root)


def write(workload: Workload, version: str, place: Path) -> tuple[list[Made], list[Made]]:
    """The stores of each node, of brokers that were stopped and of brokers that were killed."""
    roots = {end: [place / f"{end}-{number}" for number in range(len(workload.nodes))] for end in ENDS}
    for earlier, works in workload.before:
        run_groups(earlier, [_job(workload, earlier, roots[end], works) for end in ENDS])
    jobs = [
        _job(workload, version, roots["clean"], workload.works),
        replace(_job(workload, version, roots["killed"], (*workload.works, STORM)), kill=True),
    ]
    answers = run_groups(version, jobs, ipv6=workload.ipv6, disk_size=workload.disk_size)
    made = {
        end: [
            replace(made, keeps=workload.keeps and not (end == "killed" and len(roots[end]) > 1))
            for made in (_made(workload, version, root, answer) for root in roots[end])
        ]
        for end, answer in zip(ENDS, answers, strict=True)
    }
    return made["clean"], made["killed"]


ENDS = ("clean", "killed")


def _job(workload: Workload, version: str, roots: Sequence[Path], works: Sequence[Settings]) -> GroupJob:
    nodes = zip(roots, workload.nodes, strict=True)
    return GroupJob(
        tuple(_node(workload, version, root, own) for root, own in nodes),
        tuple(works),
        controller=roots[0].with_suffix(".controller") if workload.controller else None,
    )


def _node(workload: Workload, version: str, root: Path, own: tuple[Settings, Settings]) -> Node:
    return Node(
        root,
        {**broker_settings(workload), **own[0]},
        {**store_settings(workload, version), **own[1]},
        workload.rights,
        {name: str(value).replace("{root}", str(root)) for name, value in workload.more.items()},
    )


def _made(workload: Workload, version: str, root: Path, answer: GroupAnswer) -> Made:
    assert answer.refusal is None, answer.refusal
    if workload.holes:
        whole = root.rename(root.with_suffix(".whole"))
        copy_with_holes(whole, root)
    settings = {**broker_settings(workload), **store_settings(workload, version)}
    conf = root.with_suffix(".conf")
    conf.write_text("".join(f"{name}={_text(value)}\n" for name, value in settings.items()))
    records = dict(records_of(root, settings["mappedFileSizeCommitLog"]))
    with lifted(open_store(root, version=version, broker_conf=conf)) as lifting:
        questions = _questions(records, lifting.store)
    return Made(root, conf, workload, version, answer.acknowledged, records, questions, workload.keeps)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _questions(records: Mapping[str, Record], store: Store) -> Questions:
    keys: list[Key] = sorted(keys_of(records.values(), store.dialect))
    times = sorted({record.store_timestamp for record in records.values()})
    some = tuple(time + more for time in _evenly(times, TIMES_ASKED) for more in (-1, 0, 1))
    ask = Ask((-1, 0, *some, 1 << 50), max_nums=(1, 32), most=PULLS_OF_A_QUEUE)
    names = {(queue.topic, queue.queue_id) for queue in store.queues}
    if store.lifted.databases:  # after a kill they may lack rows of queues that a start makes again
        names |= {(record.topic.decode(), record.queue_id) for record in records.values()}
    queues = tuple(sorted(names))
    return Questions(ask, tuple(_evenly(keys, KEYS_ASKED)), queues)


def _evenly(items: Sequence[Item], count: int) -> list[Item]:
    """So many of the items, from the first on in equal steps."""
    step = max(len(items) // count, 1)
    return list(islice(items[::step], count))


def copy_with_holes(source: Path, target: Path) -> None:
    """Copy a directory with its files' times; where a whole block is zeros, the copy has a hole."""
    for path in source.rglob("*"):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as given, place.open("wb") as taken:
            while block := given.read(BLOCK):
                taken.seek(len(block), os.SEEK_CUR) if not any(block) else taken.write(block)
            taken.truncate(path.stat().st_size)
        shutil.copystat(path, place)
