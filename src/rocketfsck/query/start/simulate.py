"""What a broker of a given version will do when it starts on a store, without starting it. Reference 6.

    load -> index -> queues recover -> commit log recovers (dispatching) -> truncation -> dispatcher

Where the log is DLedger's, DLedger's own recovery (`node`) comes in place of the commit log's.
Every step is the broker's own with its own quirks, on positions instead of mapped bytes. Only files are read;
nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketfsck.common.budget import within
from rocketfsck.formats.dialect import Dialect, dialect_for
from rocketfsck.progress import phase
from rocketfsck.query.start.databases import with_queues
from rocketfsck.query.start.disk import Disk
from rocketfsck.query.start.dispatch import QueueName, Watcher
from rocketfsck.query.start.load import NO_AREAS, Areas, LoadedFile
from rocketfsck.query.start.model import (
    Refusal,
    Start,
)
from rocketfsck.query.start.queues import QueueModel
from rocketfsck.query.start.remains import Look, look_over
from rocketfsck.query.start.result import Cuts, look_of, start_of
from rocketfsck.query.start.settings import (
    refuse_unknown,
)
from rocketfsck.query.start.state import StartState
from rocketfsck.query.start.steps import run_start
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store


def simulate_start(
    store: Store,
    version: str,
    *,
    conf: Settings | None = None,
    losses: bool = True,
    watch: Watcher | None = None,
) -> Start:
    """Predict the start of a broker of `version` on `store`.

    `conf` are the broker's settings (default: those the store was opened with; the sizes of files are the
    store's geometry in any case). `losses` says whether to look for messages that come out of reach, which
    reads the whole commit log once. `watch` gets every run of units that the start appends.

    Raises UsageError for an unknown version, NotCoveredError for a store whose start is not described
    here (RocksDB queues, some of DLedger's), StoreError where a file cannot be read.
    """
    return simulate_starts(store, [version], conf=conf, losses=losses, watch=watch)[0]


@phase("predicting the broker's start")
def simulate_starts(
    store: Store,
    versions: Sequence[str],
    *,
    conf: Settings | None = None,
    losses: bool = True,
    watch: Watcher | None = None,
    areas: Areas = NO_AREAS,
    sound_end: int | None = None,
) -> list[Start]:
    """Predict the starts of several versions on the same files, as `simulate_start` does each.

    Messages out of reach are looked for in one pass over the commit log (in two where the versions read
    properties in two ways). `areas` are directories that are read in place of those of that name below the
    store's root: what was rebuilt elsewhere. `sound_end` is the physical offset up to which a check has found
    every record sound, and none after it: then recovery after an orderly stop need not be walked.
    """
    settings = store.settings if conf is None else conf
    dialects = [dialect_for(version) for version in versions]
    with with_queues(store) as store, within(compiled=compiled_wanted(store.commitlog.size)):
        for dialect in dialects:
            refuse_unknown(store, settings, dialect)
        return _simulated(store, dialects, settings, losses, watch, areas, sound_end)


def _simulated(
    store: Store,
    dialects: Sequence[Dialect],
    settings: Settings,
    losses: bool,
    watch: Watcher | None,
    areas: Areas,
    sound_end: int | None,
) -> list[Start]:
    table, disk = QueueTable(), Disk(is_sound=sound_end is not None)
    starts = [
        StartState(store, dialect, settings, losses, watch, areas, table, sound_end, disk)
        for dialect in dialects
    ]
    for start in starts:
        run_start(start)
    looks: dict[ScanOptions, list[Look]] = {}
    for start in starts:
        if start.complete:
            looks.setdefault(start.options, []).append(look_of(start))
    for options, wanted in looks.items():
        look_over(wanted, table, options)
    cuts: Cuts = {}
    return [start_of(start, cuts) for start in starts]


def start_files(
    store: Store, version: str, *, watch: Watcher | None = None
) -> tuple[tuple[Refusal, ...], list[LoadedFile], Mapping[QueueName, QueueModel]]:
    """The mapped files as a start of a broker of `version` leaves them: of the log, and of every queue.

    With refusals, the first of the three, the broker does not start. `watch` and errors as `simulate_start`.
    """
    dialect = dialect_for(version)
    refuse_unknown(store, store.settings, dialect)
    with within(compiled=compiled_wanted(store.commitlog.size)):
        simulation = StartState(store, dialect, store.settings, False, watch, NO_AREAS, QueueTable())
        run_start(simulation)
    return tuple(simulation.refusals), simulation.log_files, simulation.queues
