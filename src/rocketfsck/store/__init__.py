"""A read-only view of a store directory: mapped files, queues, geometry, dialect, strays. No judgement.

    from rocketfsck.store import open_store
    store = open_store("/data/rocketmq/store")

Importing the package imports none of its modules: reading one file must not cost what opening a store does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.store.identify import identify_file as identify_file
    from rocketfsck.store.model import Store as Store
    from rocketfsck.store.opening import open_store as open_store

__getattr__ = late_names(__name__, {"identify": "identify_file", "model": "Store", "opening": "open_store"})
