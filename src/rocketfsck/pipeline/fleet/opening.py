"""Opens a store of a fleet where the work on it is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketfsck.errors import StoreError
from rocketfsck.store import Store, open_store
from rocketfsck.store.meant import find_meant_stores


def open_meant(place: Path, facts: Mapping[str, Any]) -> Store:
    """The store at a path, or the one below it, as in broker-a/store; `facts` are arguments of `open_store`.

    Raises StoreError and UsageError as `open_store` does, and StoreError for what is not one store.
    """
    meant = find_meant_stores(place)
    above = [store for store in meant if place.is_relative_to(store)]
    if above:
        raise StoreError(f"is a part of the store {above[0]}", path=str(place))
    if len(meant) > 1:
        raise StoreError("is not a store, but there are stores in it: name each", path=str(place))
    if place.is_file():
        raise StoreError("is a file, not a store", path=str(place))
    return open_store(*meant or (place,), **facts)
