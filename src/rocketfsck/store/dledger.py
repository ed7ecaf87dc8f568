"""The commit log of a store that uses DLedger: its data files, behind the plain ones if there are any.

    log := plain file* , data file of DLedger's *       the first data file's name is the divided offset

A broker reads what is below that offset from `commitlog/`, and all else from DLedger's files. Both count in
one stream of physical offsets, with files of one length. Reference 2.14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rocketfsck.store.circumstances import Evidence, Settings
from rocketfsck.store.model import MappedFile, MappedFileQueue, Other, OtherKind, Store

_WHAT = "DLedger keeps the commit log"


def dledger_files(others: Sequence[Other]) -> tuple[MappedFile, ...]:
    """DLedger's data files; none where several directories have some, as then nothing says which is read."""
    found = [other.mapped_files.files for other in _data(others) if other.mapped_files is not None]
    return found[0] if len(found) == 1 else ()


def with_dledger(
    commitlog: MappedFileQueue, others: Sequence[Other], settings: Settings
) -> tuple[MappedFileQueue, tuple[Evidence, ...]]:
    """The commit log with DLedger's data files in it, and the note that says so.

    The log stays plain where the broker.conf turns DLedger off, where several nodes have data files in this
    store, and where plain files lie at or after the first data file: then nothing says which a broker reads.
    """
    files = tuple(file for file in dledger_files(others) if file.start_offset is not None)
    if not files or not settings.flag("enableDLegerCommitLog", True):
        return commitlog, ()
    divided = files[0].start_offset or 0
    if any((file.start_offset or 0) + file.size > divided for file in commitlog.files):
        return commitlog, (
            Evidence("the commit log is plain", "the files of commitlog/ overlap those of DLedger"),
        )
    joined = (*commitlog.files, *(replace(file, in_entries=True) for file in files))
    why = (
        f"below {divided} the commit log is plain"
        if commitlog.files
        else files[0].relative.rpartition("/")[0]
    )
    return replace(commitlog, files=joined), (Evidence(_WHAT, why),)


def without_entries(store: Store) -> Store:
    """The store with its plain commit log files alone, as a broker sees it that does not use DLedger."""
    plain = tuple(file for file in store.commitlog.files if not file.in_entries)
    return replace(store, commitlog=replace(store.commitlog, files=plain)) if store.has_entries else store


def _data(others: Sequence[Other]) -> list[Other]:
    return [other for other in others if other.kind is OtherKind.DLEDGER_DATA and other.files]
