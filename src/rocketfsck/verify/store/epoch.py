"""Checks of the controller-mode epoch file against itself and the commit log (reference 1.7, class H3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.epoch import EpochEntry, EpochFile, decode_epochs
from rocketfsck.formats.markers import decode_broker_identity
from rocketfsck.reader.epochs import BACKUP, EPOCH_LIMIT, epoch_files
from rocketfsck.reader.heads import begins_record
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.tasks.facts import Known

# Checks of who a broker in controller mode takes itself for: `brokerIdentity` and its forerunner.
#
#     brokerIdentity       cluster#brokerName#brokerId                     read first
#     brokerIdentity-temp  cluster#brokerName#brokerId#registerCheckCode   read where the first gives nothing
#
# Written once when the broker registers. Reference 1.7.

MAX_SIZE = 1 << 16
NAMES = {"cluster": "brokerClusterName", "broker_name": "brokerName"}
"""What must be the same in broker.conf, by the field here."""


def check_identity(store: Store) -> Iterator[Finding | NotChecked]:
    """The identity files; nobody reads a `.bak`, nor a `-temp` next to a sound identity."""
    files = [
        file for other in store.others if other.kind is OtherKind.BROKER_IDENTITY for file in other.files
    ]
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".bak"):
            continue
        try:
            data = read_whole(file.path, MAX_SIZE)
            identity = decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except FormatError as error:
            where = Where(file=file.relative, start=error.offset, end=file.size)
            yield Finding(RuleName.IDENTITY_DAMAGED, where, {"reason": str(error)})
        except StoreError as error:
            yield NotChecked(file.relative, str(error), operational=True)
        else:
            found = {setting: str(getattr(identity, name)) for name, setting in NAMES.items()}
            yield from _differing(store, file, found)
            return


def _differing(store: Store, file: StoreFile, found: dict[str, str]) -> Iterator[Finding]:
    where = Where(file=file.relative, start=0, end=file.size)
    for name, value in found.items():
        stated = (store.settings.get(name) or "").strip()
        if stated and stated != value:
            yield Finding(RuleName.IDENTITY_DIFFERS, where, {"name": name, "value": value}, {"value": stated})


HEADER_LINES = 2


def check_epochs(store: Store, known: Known) -> Iterator[Finding | NotChecked]:
    """The epoch file; its .bak only where the file itself is damaged."""
    files = epoch_files(store)
    for name, file in sorted(files.items()):
        if name.endswith(BACKUP):
            continue
        try:
            data = read_whole(file.path, EPOCH_LIMIT)
            epochs = decode_epochs(data)
        except FormatError as error:
            backup = files.get(f"{name}{BACKUP}")
            found = {"reason": str(error), "backup_state": _backup_state(backup)}
            yield Finding(RuleName.EPOCH_DAMAGED, Where(file=file.relative, start=error.offset), found)
        except StoreError as error:
            yield NotChecked(file.relative, str(error), operational=True)
        else:
            yield from _check_entries(store, known, file, epochs, _line_ends(data))


def _line_ends(data: bytes) -> list[int]:
    """Where each line ends, its separator included; the lines are those that the entries were read from."""
    return list(accumulate(map(len, data.splitlines(keepends=True))))


def _backup_state(backup: StoreFile | None) -> str:
    if backup is None:
        return "absent"
    try:
        decode_epochs(read_whole(backup.path, EPOCH_LIMIT))
    except StoreError:
        return "damaged"
    return "sound"


def _check_entries(
    store: Store, known: Known, file: StoreFile, epochs: EpochFile, line_ends: Sequence[int]
) -> Iterator[Finding]:
    """Order, range and boundaries. A start below the log has expired; equal starts are empty epochs."""
    log_start = store.commitlog.start_offset
    end = known.end_offset if known.complete else store.commitlog.end_offset
    previous: EpochEntry | None = None
    for number, entry in enumerate(epochs.entries, HEADER_LINES + 1):
        where = Where(
            file=file.relative,
            start=line_ends[number - 2],
            end=line_ends[number - 1],
            physical_offset=entry.start_offset,
        )
        found = {"line": number, "epoch": entry.epoch, "start_offset": entry.start_offset}
        if previous is not None and (
            entry.epoch <= previous.epoch or entry.start_offset < previous.start_offset
        ):
            order = {"previous_epoch": previous.epoch, "previous_physical_offset": previous.start_offset}
            yield Finding(RuleName.EPOCH_ORDER, where, {**found, **order})
        if end is not None and entry.start_offset > end:
            yield Finding(RuleName.EPOCH_RANGE, where, found, {"end_offset": end})
        elif (
            log_start is not None
            and end is not None
            and log_start <= entry.start_offset < end
            and not begins_record(store.commitlog, entry.start_offset)
        ):
            yield Finding(RuleName.EPOCH_BOUNDARY, where, found)
        previous = entry
