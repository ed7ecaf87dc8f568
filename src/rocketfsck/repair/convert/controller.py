"""Stores of a master and its slaves made ready for controller mode.

A broker in controller mode counts epochs, each from the physical offset on at which a master began
(`epochFileCheckpoint`). A store from before has none, and its master begins the first where its log ends:
what is before belongs to no epoch. A slave whose log ends there asks for offsets of no epoch, and the master
never sends it any; a slave with another history is not recognised, and keeps what only it has. An empty slave
copies everything.

The same epoch before all others in all of them, from offset 0 on, says what a comparison of their bytes has
shown: that they have one history. `AutoSwitchHAService#changeToMaster`, `AutoSwitchHAClient#doTruncate`,
`AutoSwitchHAConnection`. Reference 1.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocketfsck.errors import FormatError, StoreError, UsageError
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.reader.configs import read_epochs
from rocketfsck.repair.compare.compare import describe_side
from rocketfsck.repair.compare.groups import groups_of
from rocketfsck.repair.convert.model import ControllerFiles, JoiningStore
from rocketfsck.store.model import Store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.disk.publish import new_directory

EPOCH_FILE = "epochFileCheckpoint"
FIRST_EPOCH = EpochEntry(0, 0)
"""Before every epoch that a controller gives: those begin with 1."""

DIFFERENT = frozenset({"parted", "damaged"})


def convert_to_controller(
    stores: Sequence[Store], names: Sequence[str], into: Path, *, sync: bool = True
) -> ControllerFiles:
    """Write the epoch files that these stores of one group need to join a controller, into a new directory.

    The file of a single store is there, those of several in a directory of the store's name each. Raises
    UsageError for a store of DLedger's, stores whose epochs reach back to the beginning already, of different
    groups or histories; StoreError for one that is in use, and for what cannot be read or written.
    """
    for store in stores:
        _refuse(store)
    if len(stores) > 1:
        group = next(groups_of(stores), None)
        if group is None or len(group.members) < len(stores):
            raise UsageError("the stores are not of one group: their logs have no bytes in common")
        nodes = group.members
        for node in nodes:
            if node.relation in DIFFERENT:
                raise UsageError(
                    f"{node.path} is {node.relation}: from physical offset {node.parting_offset} on its log "
                    f"differs from that of {nodes[0].path}; leave it out, and let it begin empty"
                )
        places = [(node.path, node.end_offset, node.lacking_count) for node in nodes]
    else:
        places = [(stores[0].root, describe_side(stores[0]).end_offset, 0)]
    known = {store.root: _epochs(store) for store in stores}
    if all(epochs and not epochs[0].start_offset for epochs in known.values()):
        raise UsageError(f"{stores[0].root}: the epochs reach back to the beginning of the log already")
    files = {path: _joined(known[path], end) for path, end, _ in places}
    folders = dict(zip((store.root for store in stores), names, strict=True)) if len(stores) > 1 else {}
    with new_directory(into, sync=sync) as building:
        for path, entries in files.items():
            target = place_at(building / folders.get(path, "") / EPOCH_FILE)
            fileops.make_directories(target.parent)
            fileops.write_new(target, encode_epochs(entries))
    joining = (
        JoiningStore(path, end, lacking, into / folders.get(path, "") / EPOCH_FILE, len(files[path]))
        for path, end, lacking in places
    )
    return ControllerFiles(into, FIRST_EPOCH.epoch, FIRST_EPOCH.start_offset, tuple(joining))


def _joined(epochs: Sequence[EpochEntry], end: int) -> tuple[EpochEntry, ...]:
    """The epochs with the first before them, without those after the end of the log."""
    if epochs and not epochs[0].start_offset:
        return tuple(epochs)
    return (FIRST_EPOCH, *(entry for entry in epochs if entry.start_offset <= end))


def _epochs(store: Store) -> tuple[EpochEntry, ...]:
    try:
        return read_epochs(store)
    except FormatError as error:
        raise StoreError(f"cannot be used: {error}", path=str(store.root / EPOCH_FILE)) from error


def _refuse(store: Store) -> None:
    if any(file.in_entries for file in store.commitlog.files):
        text = "the commit log is DLedger's; make it plain first, with `rocketfsck convert plain`"
        raise UsageError(f"{store.root}: {text}")
    if not store.commitlog.files:
        raise UsageError(f"{store.root}: has no commit log; an empty store joins as it is")
    if store.live.locked:
        raise StoreError("a broker is running in it: stop it first", path=str(store.root))
