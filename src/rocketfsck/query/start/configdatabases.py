"""What configs in RocksDB decide of a start: one that cannot be read keeps the broker from starting.

    configManagerVersion=v2        config/rdb            ConfigStorage opens it
    storeType=defaultRocksDB       config/topics/ and two others, or config/metadata/: RocksDBConfigManager
                                   opens them and reads every row

`BrokerController#initializeMetadata` does so before it loads a single file of messages. Without CURRENT
RocksDB makes a new database; a WAL is read as far as it is whole. Reference 11.4, 11.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start.databases import kind_of_queues, open_failure
from rocketfsck.query.start.model import Refusal
from rocketfsck.store.model import Other, Settings, Store
from rocketfsck.store.rocks.families import CONFIG_V2, databases_of
from rocketfsck.store.rocks.files import CURRENT
from rocketfsck.store.rocks.reading import RocksError, read_rows

SEPARATE = ("config/topics", "config/consumerOffsets", "config/subscriptionGroups")
TOGETHER = "config/metadata"


def config_refusals(store: Store, settings: Settings, dialect: Dialect) -> tuple[Refusal, ...]:
    """The first config database that the broker cannot read, if there is one."""
    if dialect.dispatch_restart != "recovery":  # 5.3.2: brokers before it are not described
        return ()
    there = {other.relative: other for other in databases_of(store)}
    for path, all_rows in _used(store, settings, dialect, there.keys()):
        other = there.get(path)
        reason = None if other is None else _failure(other, all_rows=all_rows)
        if reason is not None:
            return (Refusal(path, reason),)
    return ()


def _used(store: Store, settings: Settings, dialect: Dialect, there: Set[str]) -> Iterator[tuple[str, bool]]:
    """The databases that the broker opens, in that order, and whether it reads all rows while it starts."""
    version = settings.get("configManagerVersion")
    if version == "v2" or (version is None and CONFIG_V2 in there):
        yield CONFIG_V2, False
    elif kind_of_queues(store, settings, dialect) == "rows":
        only_together = TOGETHER in there and there.isdisjoint(SEPARATE)
        together = settings.flag("useSingleRocksDBForAllConfigs", only_together)
        for path in (TOGETHER,) if together else SEPARATE:
            yield path, True


def _failure(other: Other, *, all_rows: bool) -> str | None:
    """What RocksDB says when the broker cannot open the database, or not read it."""
    reason = open_failure(other)
    if reason is not None or not all_rows or all(file.name != CURRENT for file in other.files):
        return reason
    try:
        for _ in read_rows(other):
            pass
    except RocksError as error:
        return f"org.rocksdb.RocksDBException: {error.message}" if error.from_rocksdb else None
    except StoreError:
        return None
    return None
