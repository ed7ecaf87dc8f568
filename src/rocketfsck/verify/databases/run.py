"""Checks all databases of a store: files, rows, both against the log, configs against the queues.

    files of each database    by its manifest, at every level
    rows                      at `cross` and above, where rocksdict is installed, on this machine

The databases are read once the log and the queues of files are known, one after the other. One that cannot be
read is read a second time, past the page cache, before damage is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import StoreError
from rocketfsck.formats.javatext import java_decode
from rocketfsck.reader.configs import loaded_topics, may_lack_topics, topics_changed
from rocketfsck.reader.indexrows import log_batches
from rocketfsck.store.elsewhere import OTHER_DATABASES, QUEUE_DATABASES, lost_queue_database
from rocketfsck.store.model import Other, Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import forget_cached
from rocketfsck.store.rocks.families import CONFIG_V2, databases_of, is_known
from rocketfsck.store.rocks.lifting import Lifting, lifted
from rocketfsck.store.rocks.reading import why_not_readable
from rocketfsck.store.rocks.spilling import Spill
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.databases.messages import check_database_files, check_messages, odd_rows, unreadable
from rocketfsck.verify.databases.queues import check_spill
from rocketfsck.verify.finding import Facts, Finding, Findings, Severity, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.store.config import check_config
from rocketfsck.verify.store.configfiles import is_system_topic
from rocketfsck.verify.tasks.task import Checked, Context, Known, Shared

LEVEL_REASON = "only the levels cross and full read its rows"
PART_REASON = "rows are read only when every other part of the store has been checked, on this machine"

LATER_MS = 1000
"""A message so much later than the last change of a table is not older than a deletion."""

Said = list[Finding | NotChecked]


_NOTHING = Checked()


@dataclass(frozen=True, slots=True)
class Databases:
    """What the check of the databases came to. `read`: those whose rows were gone through, by name;
    `configs`: the items of the configs where databases hold some or the queues, None where they are in files
    alone."""

    items: tuple[Finding | NotChecked, ...] = ()
    read: frozenset[str] = frozenset()
    checked: Checked = _NOTHING
    configs: tuple[Finding | NotChecked, ...] | None = None


def check_databases(
    context: Context, options: CheckOptions, known: Known, gatherer: Gatherer, *, local: bool
) -> Databases:
    """Check every database of the store. `gatherer` takes what its queues say of messages, if no files do.

    Raises StoreError where there is no room for what is unpacked.

    `local`: the check runs on this machine. Without `known.complete` only the files are looked at.
    """
    store = context.store
    found = list(databases_of(store))
    if not found and lost_queue_database(store) is None:
        return Databases()
    items: Said = list(check_database_files(store))
    if context.level == "quick" or not known.complete or not local:
        reason = LEVEL_REASON if context.level == "quick" else PART_REASON
        items += [NotChecked(other.relative, reason) for other in found if is_known(other.relative)]
        return Databases(tuple(items))
    read: set[str] = set()
    with lifted(store) as lifting:
        failed = {other.relative: other for other in found}
        unread = list(_unread(store, failed, lifting.failed))
        items += unread
        read |= lifting.store.lifted.databases
        if not lifting.spills and not store.queues:
            _count_without_queues(context, options, _gone(store, failed, unread), gatherer)
        for name, odd in sorted(lifting.odd.items()):
            items += odd_rows(name, odd)
        config_known = known
        for spill in lifting.spills:
            items += odd_rows(spill.database.relative, spill.odd)
            known_configs = replace(context, store=replace(store, configs=lifting.store.configs))
            said, inner = check_spill(known_configs, options, spill, None if store.queues else gatherer)
            items += said
            whole = spill.dispatched is not None and spill.dispatched >= (inner.end_offset or 0)
            if whole and lifting.store.lifted.areas:
                config_known = inner
        configs = tuple(_configs(context, lifting, config_known)) if read else None
    for other in found:
        if other.relative in OTHER_DATABASES:
            items += _rows(context, other.relative, read)
    files = [file for other in found if other.relative in read for file in other.files]
    checked = Checked(len(files), sum(file.size for file in files))
    return Databases(tuple(items), frozenset(read), checked, configs)


def _gone(
    store: Store, databases: Mapping[str, Other], unread: Iterable[Finding | NotChecked]
) -> Other | None:
    """The database of queues that is missing, or damaged so that nobody can read it; None where there is
    none."""
    broken = [
        item.found["database"]
        for item in unread
        if isinstance(item, Finding) and item.rule == RuleName.DATABASE_UNREADABLE
    ]
    names = sorted(QUEUE_DATABASES.intersection(map(str, broken)))
    return databases[names[0]] if names else lost_queue_database(store)


def _count_without_queues(
    context: Context, options: CheckOptions, database: Other | None, gatherer: Gatherer
) -> None:
    """Have the gatherer take the messages of the log whose units went with their database: of all."""
    if database is not None:
        check_spill(replace(context, shared=Shared()), options, Spill(database), gatherer)


def _rows(context: Context, name: str, read: set[str]) -> Items:
    """The rows of a database of messages."""
    store = context.store
    (other,) = (other for other in databases_of(store) if other.relative == name)
    if (reason := why_not_readable(other)) is not None:
        yield NotChecked(name, reason)
        return
    try:
        yield from check_messages(store, other, context.shared)
        read.add(name)
    except StoreError as error:
        said = unreadable(store, other, error)
        yield _settled(store, other, said, partial(_fails, partial(_messages, store, other)))


def _messages(store: Store, other: Other) -> Said:
    """What is said of a database of messages at a second look, whose places are not counted again."""
    return list(check_messages(store, other, Shared()))


def _unread(store: Store, databases: Mapping[str, Other], failed: Mapping[str, StoreError]) -> Items:
    """What is said of the databases that could not be read, after a second look at them."""

    def fails_again(name: str) -> bool:
        with lifted(store) as second:
            return name in second.failed

    for name, error in failed.items():
        said = unreadable(store, databases[name], error)
        yield _settled(store, databases[name], said, partial(fails_again, name))


def _fails(read: Callable[[], object]) -> bool:
    try:
        read()
    except StoreError:
        return True
    return False


def _settled(
    store: Store, other: Other, said: Finding | NotChecked, fails_again: Callable[[], bool]
) -> Finding | NotChecked:
    """What is said of a database after a second look past the page cache, if damage is what is said first."""
    if not isinstance(said, Finding) or is_remote(store.root):
        return said
    for file in other.files:
        with suppress(StoreError):  # a file that is gone has nothing in the cache
            forget_cached(file.location, [(0, file.size)])
    if fails_again():
        return said
    return Finding(RuleName.READS_DIFFER, said.where, {"rules": str(said.rule)})


def _configs(context: Context, lifting: Lifting, known: Known) -> Items:
    """The configs with those of databases among them; what is said of these is said of the database."""
    inner = replace(context, store=lifting.store)
    yield from _topics_not_written(inner, known)
    for item in check_config(inner, known):
        if not isinstance(item, Finding) or item.where.file not in lifting.store.lifted.databases:
            yield item
        else:
            severe = RULES[item.rule].severity > Severity.INFO
            rule = RuleName.DATABASE_CONFIG if severe else RuleName.DATABASE_CONFIG_NOTE
            problem = {"database": item.where.file, "problem": RULES[item.rule].slug}
            yield Finding(rule, item.where, {**problem, **item.found}, item.expected)


def _topics_not_written(context: Context, known: Known) -> Findings:
    """Topics that a broker made and did not write to its database: they have messages from after the last
    change of the table, so that nobody has deleted them.

    Reads the log once more where the database lacks a topic of it.
    """
    store = context.store
    listed, changed = loaded_topics(store), topics_changed(store)
    if not may_lack_topics(store) or not listed or changed is None:
        return
    context.shared.ask(RuleName.TOPICS_NOT_WRITTEN, len(listed))
    topics = {topic for topic, _ in (*known.queue_ends, *known.queues)}
    unlisted = {topic for topic in topics - listed.keys() if not is_system_topic(topic)}
    if not unlisted:
        return
    newest: dict[str, int] = {}
    for batch in log_batches(store):
        times = np.full(len(batch.table) + 1, -1, np.int64)  # the last one is for records without a queue
        np.maximum.at(times, batch.batch["queue_index"], batch.batch["store_timestamp"])
        for (topic, _), time in zip(batch.table.names, times.tolist(), strict=False):
            name = java_decode(topic)
            newest[name] = max(newest.get(name, -1), time)
    missing = sorted(topic for topic in unlisted if newest.get(topic, -1) > changed + LATER_MS)
    if missing:
        found: Facts = {"database": CONFIG_V2, "topic_count": len(missing), "topics": first_names(missing)}
        yield Finding(RuleName.TOPICS_NOT_WRITTEN, Where(CONFIG_V2), found)
