"""rocketfsck: reads, verifies and explains Apache RocketMQ message stores, offline.

What is here is the public interface; everything else may change. Begin with `open`:

    open(path)                  an `OpenedStore`: its messages, columns, check, verdict and plan; a context
                                manager whose `apply` is the only thing that writes

What it is made of, for programs that want one thing:

    open_store(path)            a `Store`: files, queues, geometry, dialect, whether a broker is running
    store_info(store)           a `StoreInfo`: what `rocketfsck info` says of it
    iter_messages(store, …)     every `Message` of the commit log, or those of a topic, key, time …
    read_columns(store, …)      the same records as Arrow record batches of columns, fast
    read_units(store, …)        the units of a consume queue, likewise
    read_entries(store, …)      the entries of an index file, likewise
    check(CheckCommand(…))      what `check` does, as a `CheckAnswer`: report, verdict, exit status
    check_store(store, …)       a `Report` of `Finding`s, as `CheckOptions` ask for
    check_stores(paths, …)      a row for each of many stores, on this machine or on Spark

All errors raised on purpose are `RocketfsckError`s (`rocketfsck.errors`). Names are imported when they are
used, so `import rocketfsck` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck._version import __version__

if TYPE_CHECKING:
    from rocketfsck.api import iter_messages as iter_messages
    from rocketfsck.api import read_columns as read_columns
    from rocketfsck.api import read_entries as read_entries
    from rocketfsck.api import read_units as read_units
    from rocketfsck.commands.check import CheckAnswer as CheckAnswer
    from rocketfsck.commands.check import CheckCommand as CheckCommand
    from rocketfsck.commands.check import check as check
    from rocketfsck.errors import RocketfsckError as RocketfsckError
    from rocketfsck.opened import OpenedStore as OpenedStore
    from rocketfsck.opened import open as open  # noqa: A004
    from rocketfsck.pipeline.fleet.run import check_stores as check_stores
    from rocketfsck.query.info.model import StoreInfo as StoreInfo
    from rocketfsck.query.info.store import store_info as store_info
    from rocketfsck.scan.views.messages import Message as Message
    from rocketfsck.store.model import Store as Store
    from rocketfsck.store.opening import open_store as open_store
    from rocketfsck.storedmessage import StoredMessage as StoredMessage
    from rocketfsck.verify.finding import Finding as Finding
    from rocketfsck.verify.options import CheckOptions as CheckOptions
    from rocketfsck.verify.report import Report as Report
    from rocketfsck.verify.rules.catalog import describe as describe
    from rocketfsck.verify.run import check_store as check_store

_HOMES = {
    "api": "iter_messages read_columns read_entries read_units",
    "commands.check": "CheckAnswer CheckCommand check",
    "errors": "RocketfsckError",
    "opened": "OpenedStore open",
    "pipeline.fleet.run": "check_stores",
    "query.info.model": "StoreInfo",
    "query.info.store": "store_info",
    "scan.views.messages": "Message",
    "store.model": "Store",
    "store.opening": "open_store",
    "storedmessage": "StoredMessage",
    "verify.finding": "Finding",
    "verify.options": "CheckOptions",
    "verify.report": "Report",
    "verify.rules.catalog": "describe",
    "verify.run": "check_store",
}
__all__ = [*" ".join(_HOMES.values()).split(), "__version__"]


def __getattr__(name: str) -> object:
    from rocketfsck.common.late import late_names

    return late_names(__name__, _HOMES)(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
