"""A fleet simulated: how long a check of a thousand brokers takes, and what breaks first.

The plan is the product's own: `stages.bounded` and `stages.pack` group and cut made-up stores. Time is that
of list scheduling: a task goes to the core that is free first, but not before the driver has sent it. What a
byte, a file, a task cost are `Rates`; the machines are made up.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rocketfsck.pipeline.fleet import stages

GIB, TIB, PIB = 1 << 30, 1 << 40, 1 << 50
INDEX_SIZE = 400 << 20
QUEUE_FILES = 3
GROUP_QUEUES = 1024
ROW_SIZE = 1000
PIECE_SIZE = 200
"""Bytes of memory of a share that waits: a slotted object of four numbers."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Times in seconds, sizes in bytes; measured but for what is said to be assumed.

    `byte_seconds` a GiB checked on one core; `list_seconds` a file found and planned; `unpack_seconds` a
    file in a packed list; `end_seconds` a result put together; `listed_size` a file in a packed list,
    `result_size` a packed result. Assumed: 20 µs of `list_seconds`, `send_seconds` a task that the driver
    sends and takes back, `start_seconds` a task that a worker begins and ends.
    """

    byte_seconds: float = 1.47
    list_seconds: float = 46e-6
    unpack_seconds: float = 9.5e-6
    end_seconds: float = 250e-6
    send_seconds: float = 1e-3
    start_seconds: float = 0.05
    listed_size: float = 29.5
    result_size: float = 1230.0


@dataclass(frozen=True, slots=True)
class Machines:
    """A cluster. `link_rate` is what a machine reads over the network, in bytes a second; 0: disks keep up.

    `core_price` and `gib_price` are in dollars: a core for an hour, a GiB that leaves the storage.
    """

    cores: int = 1024
    cores_each: int = 16
    link_rate: float = 0.0
    core_price: float = 0.04
    gib_price: float = 0.0


@dataclass(frozen=True, slots=True)
class Described:
    """A made-up store: its commit log files of 1 GiB, its queues and its index files."""

    log_count: int
    queue_count: int
    index_count: int

    @property
    def byte_count(self) -> int:
        """Bytes on the disk, without holes."""
        return self.log_count * GIB + self.index_count * INDEX_SIZE + self.queue_count * (64 << 10)

    @property
    def file_count(self) -> int:
        """All files."""
        return self.log_count + self.index_count + self.queue_count * QUEUE_FILES

    def weights(self) -> list[int]:
        """The weights of its tasks, in the order of a check: log files, groups of queues, index files."""
        log = [GIB + stages.FILE_WEIGHT] * self.log_count
        groups = range(0, self.queue_count, GROUP_QUEUES)
        counts = [min(GROUP_QUEUES, self.queue_count - first) for first in groups]
        queues = [count * ((64 << 10) + QUEUE_FILES * stages.FILE_WEIGHT) for count in counts]
        return [*log, *queues, *[INDEX_SIZE + stages.FILE_WEIGHT] * self.index_count]


def made_up(count: int, byte_count: int, seed: int = 1) -> list[Described]:
    """Stores of log-normal sizes, `byte_count` in all (about), with some 32 to 10,000 queues."""
    dice = random.Random(seed)
    shares = [dice.lognormvariate(0.0, 0.5) for _ in range(count)]
    scale = byte_count / sum(shares) / (1.1 * GIB)
    stores = []
    for share in shares:
        logs = max(round(share * scale), 1)
        queues = min(round(32 * dice.paretovariate(0.5)), 10_000)
        stores.append(Described(logs, queues, max(logs // 4, 1)))
    return stores


@dataclass(slots=True)
class Simulated:
    """What came out. Times in seconds; `busy` is the part of all cores' time that is work.

    `plan_seconds` and `plan_memory` (bytes) are those of the real planner in this process;
    `held_size` are packed bytes in the driver at once, `passed_size` those of the whole run.
    """

    store_count: int
    byte_count: int
    task_count: int = 0
    group_count: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    work_seconds: float = 0.0
    driver_seconds: float = 0.0
    held_size: float = 0.0
    passed_size: float = 0.0
    row_size: int = 0
    plan_seconds: float = 0.0
    plan_memory: int = 0
    dollars: float = 0.0
    longest_seconds: float = 0.0

    @property
    def dollars_a_tib(self) -> float:
        """The cost of a TiB."""
        return self.dollars / (self.byte_count / TIB)


class _Cores:
    """Cores that take tasks in order; the driver sends one after the other."""

    def __init__(self, count: int, send_seconds: float) -> None:
        self._free = [0.0] * count
        self._sent = 0.0
        self._send_seconds = send_seconds
        self.work = self.driver = 0.0

    def run(self, tasks: Sequence[float]) -> None:
        """Tasks of one round: all are sent before any of the next one."""
        for seconds in tasks:
            self._sent += self._send_seconds
            self.driver += self._send_seconds
            begin = max(heapq.heappop(self._free), self._sent)
            heapq.heappush(self._free, begin + seconds)
            self.work += seconds

    def barrier(self) -> None:
        """Wait for all."""
        end = max(self._free)
        self._free = [end] * len(self._free)
        self._sent = max(self._sent, end)

    @property
    def end(self) -> float:
        return max(self._free)


def simulate(stores: Sequence[Described], machines: Machines, rates: Rates | None = None) -> Simulated:
    """Check the stores on the machines."""
    rates = rates or Rates()
    found = Simulated(len(stores), sum(store.byte_count for store in stores))
    byte_seconds = rates.byte_seconds
    if machines.link_rate:
        byte_seconds = max(byte_seconds, GIB * machines.cores_each / machines.link_rate)
    cores = _Cores(machines.cores, rates.send_seconds)
    weights = [store.weights() for store in stores]
    large = [number for number, each in enumerate(weights) if sum(each) > stages.WHOLE_WEIGHT]
    small = set(range(len(stores))) - set(large)
    begins = [
        stores[number].file_count * rates.list_seconds
        + rates.start_seconds
        + (sum(weights[number]) / GIB * byte_seconds if number in small else 0.0)
        for number in range(len(stores))
    ]
    cores.run(begins)
    cores.barrier()
    sizes = {
        number: round(
            stores[number].file_count * rates.listed_size + len(weights[number]) * rates.result_size
        )
        for number in large
    }
    for group in stages.bounded(large, sizes.__getitem__, stages.HELD_SIZE):
        began = time.process_time()
        given = {number: stages.Given(b"", tuple(weights[number])) for number in group}
        pieces = stages.pack(given, machines.cores)
        found.plan_seconds += time.process_time() - began
        again = [begins[number] for number in group]
        shares = [
            piece.weight / GIB * byte_seconds
            + stores[piece.number].file_count * rates.unpack_seconds
            + rates.start_seconds
            for piece in pieces
        ]
        ends = [_end_seconds(stores[number], len(weights[number]), rates) for number in group]
        for tasks in (again, shares, ends):
            cores.run(tasks)
            cores.barrier()
        found.held_size = max(found.held_size, sum(sizes[number] for number in group))
        found.task_count += len(again) + len(shares) + len(ends)
        found.group_count += 1
        found.plan_memory = max(found.plan_memory, len(pieces) * PIECE_SIZE)
        found.longest_seconds = max(found.longest_seconds, *shares)
    found.task_count += len(begins)
    found.seconds, found.work_seconds, found.driver_seconds = cores.end, cores.work, cores.driver
    found.busy = cores.work / (cores.end * machines.cores)
    found.passed_size = sum(sizes.values())
    found.row_size = ROW_SIZE * len(stores)
    found.dollars = cores.end * machines.cores / 3600 * machines.core_price
    found.dollars += found.byte_count / GIB * machines.gib_price
    return found


def _end_seconds(store: Described, task_count: int, rates: Rates) -> float:
    return store.file_count * rates.unpack_seconds + task_count * rates.end_seconds + rates.start_seconds
