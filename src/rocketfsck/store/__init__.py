"""A read-only view of a store directory: mapped files, queues, geometry, dialect, strays. No judgement.

    from rocketfsck.store import open_store
    store = open_store("/data/rocketmq/store")

Importing the package imports none of its modules: reading one file must not cost what opening a store does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketfsck.store.identify import identify_file as identify_file
    from rocketfsck.store.model import Store as Store
    from rocketfsck.store.opening import open_store as open_store

_HOMES = {"Store": "model", "identify_file": "identify", "open_store": "opening"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
