"""Repair of the epoch files of a broker under a controller: what fits the log is kept.

Reference 1.7; fault catalogue H3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.javatext import parse_int32, parse_int64
from rocketfsck.formats.smallfiles import EpochEntry, decode_epochs, encode_epochs
from rocketfsck.reader.configs import BACKUP, EPOCH_LIMIT, epoch_files
from rocketfsck.reader.heads import begins_record
from rocketfsck.repair.log.edit import read_log_end
from rocketfsck.repair.plan.arguments import Epochs
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, by_file, notice, one_by_one, whole_file
from rocketfsck.repair.repairs.misnamed import is_unsettled
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Finding


def plan_epochs(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Epoch files with the entries that fit the log; one without any is set aside."""
    if is_unsettled(scene):
        return
    for name, found in by_file(one_by_one(findings)).items():
        try:
            entries, dropped = sound_epochs(scene.store, name)
        except StoreError:
            continue
        note = (
            f"keep the {count_of(len(entries), 'epoch')} that {'fits' if len(entries) == 1 else 'fit'} the "
            "log"
            if entries
            else "move the file aside: no epoch in it fits the log"
        )
        yield answer(
            "rewrite-epochs",
            name,
            note,
            found,
            arguments=Epochs(tuple(entries)),
            preconditions=whole_file(scene, name),
            losses=[Loss("entry", dropped, kept_in="set aside")] if dropped else [],
            notices=[notice("epochs-dropped", dropped), notice("settings-older", 1)],
        )


def sound_epochs(store: Store, name: str) -> tuple[list[EpochEntry], int]:
    """The epochs of a file (else of its .bak) that ascend, start in the log and on a record; how many of the
    file's are left out. Raises StoreError where the file cannot be read."""
    data = read_whole(store.root / name, EPOCH_LIMIT)
    candidates = _lines(data)
    try:
        decode_epochs(data)
    except FormatError:
        candidates = _backup(store, name) or candidates
    end = read_log_end(store)
    limit = end.end_offset if end is not None else 0
    log_start = store.commitlog.start_offset or 0
    kept: list[EpochEntry] = []
    for entry in candidates:
        follows = not kept or (entry.epoch > kept[-1].epoch and entry.start_offset >= kept[-1].start_offset)
        fits = entry.start_offset <= limit and (
            not log_start <= entry.start_offset < limit or begins_record(store.commitlog, entry.start_offset)
        )
        if follows and fits and entry.start_offset >= 0:
            kept.append(entry)
    return kept, max(len(_lines(data)) - len(kept), 0)


def _lines(data: bytes) -> list[EpochEntry]:
    """Every line that reads as an epoch, whatever the CRC says."""
    found = []
    for line in data.splitlines()[2:]:
        parts = line.decode("ascii", "replace").strip().split("-")
        epoch, start = parse_int32(parts[0]), parse_int64(parts[-1])
        if len(parts) == 2 and epoch is not None and start is not None:
            found.append(EpochEntry(epoch, start))
    return found


def _backup(store: Store, name: str) -> list[EpochEntry]:
    for file in epoch_files(store).values():
        if file.relative == f"{name}{BACKUP}":
            try:
                return list(decode_epochs(read_whole(file.path, EPOCH_LIMIT)).entries)
            except StoreError:
                return []
    return []


def act_epochs(scene: ActScene, action: Action, arguments: Epochs) -> None:
    """Set the old file aside and write the new one."""
    scene.tree.set_aside(action.target)
    if arguments.epochs:
        data = encode_epochs(arguments.epochs)
        scene.tree.create(action.target, len(data))
        scene.tree.write(action.target, 0, data)


ROWS: tuple[Row, ...] = (
    Repair("rewrite-epochs", 500, "keep the epochs that fit the log", plan_epochs, act_epochs, Epochs),
)
