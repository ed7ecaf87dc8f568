"""Judges a repaired store by a start: what brokers would do with it, and whether they did less before.

    the store as it was --predict--> verdicts  \
                                                worse in nothing, or the repair is not published
    the store repaired  --predict--> verdicts  /

Every version that the store may have is asked; those that start alike once. Design, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocketfsck.formats.dialect import Version
from rocketfsck.query.start.load import NO_AREAS, Areas
from rocketfsck.query.start.verdict import (
    StartVerdict,
    predict_starts,
    start_classes,
    versions_of,
    worse,
)
from rocketfsck.repair.plan.model import Action
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store

START_SETTINGS = (
    "brokerId",
    "checkCRCOnRecover",
    "combineAssignOffsetCQType",
    "combineCQMaxExtraSearchCommitLogFiles",
    "combineCQPreferCQType",
    "combineCQUseRocksdbForLmq",
    "enableConsumeQueueExt",
    "enableDLegerCommitLog",
    "enableLmq",
    "forceVerifyPropCRC",
    "indexRocksDBEnable",
    "recheckReputOffsetFromCq",
    "rocksdbCQDoubleWriteEnable",
    "storeType",
    "transRocksDBEnable",
    "useSeparateStorePathForRocksdbCQ",
)
"""Settings, besides those of sizes, index and delay levels, that decide what a start does."""


@dataclass(frozen=True, slots=True)
class StartComparison:
    """The start of a class of versions on the store as it was and on the repaired one.

    `before` is None where nobody asked: the start afterwards takes nothing, so that it cannot be worse.
    `worse` are clauses that say in what the later one is worse.
    """

    before: StartVerdict | None
    after: StartVerdict
    worse: tuple[str, ...] = ()


@dataclass(slots=True)
class Former:
    """The store as it was before a repair, whose starts are predicted when they are asked for, once.

    `conf` are the settings of the broker. `losses` says whether to look for messages that come out of reach,
    which reads the log once, before and after.
    """

    store: Store
    conf: Settings | None = None
    losses: bool = True
    _known: dict[tuple[Version, ...], StartVerdict] = field(default_factory=dict, repr=False)

    def starts(self, classes: Sequence[tuple[Version, ...]]) -> dict[tuple[Version, ...], StartVerdict]:
        """The starts of these classes of versions."""
        missing = [group for group in classes if group not in self._known]
        found = predict_starts(self.store, missing, conf=self.conf, losses=self.losses) if missing else []
        self._known.update(zip(missing, found, strict=True))
        return {group: self._known[group] for group in classes}


def compare_starts(before: Former, after: Store, actions: Sequence[Action]) -> tuple[StartComparison, ...]:
    """Predict the starts of all versions that the store may have, after and before the repair.

    `before` is asked for the store's own version, and wherever the start afterwards takes something. What
    cannot be predicted has a verdict that says so.
    """
    classes = start_classes(versions_of(after))
    found = predict_starts(after, classes, conf=before.conf, losses=before.losses)
    own = after.dialect.version
    asked = [
        group for group, verdict in zip(classes, found, strict=True) if own in group or not verdict.harmless
    ]
    earlier = before.starts(asked)
    given_up = sum(
        loss.count for action in actions for loss in action.losses if loss.what in ("record", "unit")
    )
    comparisons = []
    for group, verdict in zip(classes, found, strict=True):
        then = earlier.get(group)
        reasons = () if then is None else worse(then, verdict, given_up)
        comparisons.append(StartComparison(then, verdict, reasons))
    return tuple(comparisons)


def start_problem(comparisons: Sequence[StartComparison]) -> str:
    """Why a repair is not to be published, as a sentence without its full stop; "" where it may be."""
    for item in comparisons:
        if item.worse:
            return (
                f"a broker of version {item.after.version} would start worse than before: it {item.worse[0]}"
            )
    return ""


def predict_output(
    store: Store, versions: Iterable[Version], *, losses: bool, areas: Areas = NO_AREAS
) -> tuple[StartVerdict, ...]:
    """The starts of these versions on a store that was built again, or parts of it.

    `areas` are the directories that were built, by the name of the store's that they stand for.
    """
    return tuple(predict_starts(store, start_classes(versions), losses=losses, areas=areas))


def predict_rebuilt(
    store: Store, into: Path, *, queues: bool, index: bool, checkpoint: bool
) -> tuple[StartVerdict, ...]:
    """The starts on a store with what was rebuilt of it, in `into`, in place of its own.

    Reads what the broker would read, and not the whole log: messages out of reach are not looked for.
    """
    built = open_store(into, version=str(store.dialect.version))
    areas = {
        name: into / name
        for name, wanted in (("consumequeue", queues), ("batchconsumequeue", queues), ("index", index))
        if wanted
    }
    replaced = {item.relative for item in built.others}
    if not replaced.isdisjoint(QUEUE_DATABASES):
        replaced |= set(QUEUE_DATABASES)
    others = (*(item for item in store.others if item.relative not in replaced), *built.others)
    mixed = replace(
        store,
        others=others,
        queues=built.queues if queues else store.queues,
        indexes=built.indexes if index else store.indexes,
        checkpoint=built.checkpoint if checkpoint else store.checkpoint,
    )
    return predict_output(mixed, versions_of(store), losses=False, areas=areas)
