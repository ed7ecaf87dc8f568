"""Real brokers and their clients as a function: stores and works in, what was acknowledged and answered out.

One process of `java/rocketfsck/workload` takes some jobs, one after the other; a job is a group of brokers
that start on their stores, the works that clients do, and questions. A group that is to be killed is the last
one: the process halts in the middle of it. Processes run one at a time: brokers take memory and cores.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.broker import Ask, Asked, Key, QueueName, State, ask_document, asked_of, state_of
from tests.oracle.jvm import answers_of

SECONDS = 600
"""What a process may take at most, on a machine with more to do; usually it takes less than a minute."""
_FLAGS = (
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=1g",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "-Dtls.enable=false",
    "-Dtls.server.mode=disabled",
    "-Drocketmq.client.logUseSlf4j=false",
)
SMALL_DISKS = Path(__file__).parent / "small-disks"
_NAMESPACE = ("--map-root-user", "--mount")
_IPV4 = "-Djava.net.preferIPv4Stack=true"

Settings = Mapping[str, Any]
Work = Mapping[str, Any]
"""`do` names a class of java/rocketfsck/workload, which says what else there is."""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker: its store; settings of BrokerConfig, MessageStoreConfig, AuthConfig, and of plugins."""

    root: Path
    broker: Settings = field(default_factory=dict)
    store: Settings = field(default_factory=dict)
    rights: Settings = field(default_factory=dict)
    more: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Questions:
    """What every broker of a group is asked: keys, queues besides those that it lists, and more."""

    ask: Ask
    keys: tuple[Key, ...] = ()
    queues: tuple[QueueName, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupJob:
    """Brokers, what is done, what is asked, and how it ends. `controller` is the directory of one."""

    nodes: tuple[Node, ...]
    works: tuple[Work, ...] = ()
    questions: Questions | None = None
    kill: bool = False
    controller: Path | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a broker told a producer of a message."""

    topic: str
    queue_id: int
    queue_offset: int
    unique_id: str
    offset_id: str


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    state: State
    asked: Mapping[QueueName, Asked]


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """`refusal` says why the brokers did not start; `answers` has those of each node, None of one that was
    stopped."""

    refusal: str | None
    acknowledged: tuple[Acknowledged, ...]
    answers: tuple[NodeAnswer | None, ...]


def has_small_disks() -> bool:
    """Whether this machine lets its user mount file systems in a namespace."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(["unshare", *_NAMESPACE, "true"], check=False, capture_output=True).returncode
    )


def run_groups(
    version: str, jobs: Sequence[GroupJob], *, ipv6: bool = False, disk_size: str = ""
) -> list[GroupAnswer]:
    """The groups, one after the other in one process; their answers. OracleError if one is missing. With
    `disk_size`, like "6m", each store is on a disk of that size while they run."""
    flags = _FLAGS if ipv6 else (*_FLAGS, _IPV4)
    documents = list(map(_document, jobs))
    main = ("rocketfsck.workload.Workloads",)
    under: list[str] = []
    if disk_size:
        roots = [str(node.root) for job in jobs for node in job.nodes]
        under = ["unshare", *_NAMESPACE, str(SMALL_DISKS), disk_size, *roots, "--"]
    with _alone():
        rows = answers_of(version, "brokers", main, documents, flags=flags, under=under, seconds=SECONDS)
    return list(map(_answer, rows))


@contextmanager
def _alone() -> Iterator[None]:
    """Until no other process of this machine's tests runs brokers."""
    with (Path(tempfile.gettempdir()) / "rocketfsck-brokers.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _document(job: GroupJob) -> dict[str, Any]:
    document: dict[str, Any] = {
        "nodes": [
            {
                "root": str(node.root),
                "broker": {**node.broker},
                "store": {**node.store},
                "rights": {**node.rights},
                "more": {**node.more},
            }
            for node in job.nodes
        ],
        "works": [dict(work) for work in job.works],
        "end": "kill" if job.kill else "stop",
    }
    if job.controller is not None:
        document["controller"] = str(job.controller)
    if job.questions is not None:
        document["ask"] = {
            **ask_document(job.questions.ask),
            "keys": [list(key) for key in job.questions.keys],
            "queues": [list(name) for name in job.questions.queues],
        }
    return document


def _answer(row: Mapping[str, Any]) -> GroupAnswer:
    answers = [
        None if answer is None else NodeAnswer(state_of(answer["state"]), asked_of(answer["asked"]))
        for answer in row.get("answers", ())
    ]
    acknowledged = tuple(Acknowledged(*values) for values in row["acknowledged"])
    return GroupAnswer(row["refusal"], acknowledged, tuple(answers))
