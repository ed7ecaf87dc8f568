"""What is not a store, whatever it holds: an empty mount point, another program's files, config alone."""

from __future__ import annotations

import os

from rocketfsck.common.wording import count_of
from rocketfsck.errors import NoStoreError
from rocketfsck.store.model import Store


def refuse_no_store(store: Store) -> None:
    """Raise NoStoreError for a directory without any part of a store: an empty one, another program's, a
    directory of stores. Config files and databases of settings alone are not a store: a broker that ever
    started has at least `checkpoint` or `abort` next to them, so the messages are on a disk that is not
    mounted."""
    parts = (
        store.commitlog.files,
        store.queues,
        store.ext_queues,
        store.indexes,
        [other for other in store.others if not _is_of_config(other.relative)],
        [stray for stray in store.strays if stray.area not in ("root", "config")],
    )
    if any(parts) or store.checkpoint is not None or store.abort is not None:
        return  # what else is in the directory of a store is for a check to judge
    said = (
        f"the directory has {count_of(len(store.strays), 'other entry')}"
        if store.strays
        else "nothing is there"
    )
    if store.configs or store.others:
        said = "the directory has only config files"
    elif store.directories:
        said = f"there are no files in {', '.join(sorted(store.directories))}"
    text = f"no RocketMQ store is here: {said}; is a disk not mounted?"
    raise NoStoreError(text, path=os.fspath(store.root))


def _is_of_config(relative: str) -> bool:
    return relative.split("/", 1)[0] == "config"
