"""The views of who consumes what and how far: `offsets`, `topics`, `subscriptions`. One part a store.

    offsets         one row a consumer group and queue: where it is, its lag and how old that is
    topics          one row a topic of topics.json or with a queue: its settings, and what can be read of it
    subscriptions   one row a group and topic: the group's settings, and what it subscribes to

The rows are those of `query offsets` and of the files below `config/`, as a broker loads them (its .bak where
the file itself is broken); configs and queues in RocksDB count, too. `file` is the one that a row is from.

Columns and rows of answers that are dataclasses: the names are those of their members, as in JSON.

    int      BIGINT, queue_id INT        str, Literal, Enum    STRING
    bool     BOOLEAN                     tuple of texts        ARRAY<STRING>
    Mapping  MAP<STRING, STRING>         None                  NULL

Configs that such rows are made of are read as a broker loads them. One that it cannot load is damage, one
that cannot be read is not: both end the query, or are rows, or nothing, as the options say.

The views of what is gone and what a start would do: `lost` and `starts`. One part a store.

    lost      one row a range of lost messages of one queue: which, how that is known, between which times
              they were stored, and who had not read them
    starts    one row a version that the store may come from: what a broker of it would do when it starts

The rows of `lost` are those of `check --lost`, by a check at `level` (`cross`, if not given); their
`message_count` adds up to what the verdict counts, lost for certain or perhaps (`sure`). The rows of `starts`
are the members of a predicted start in a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config as formats_config
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views import model
from rocketfsck.pipeline.views.findings import checked, left_out_rows
from rocketfsck.pipeline.views.model import Row, WantedRows, account, ignores, printable, typed
from rocketfsck.query import offsets as query_offsets
from rocketfsck.query.start import verdict as start_verdict
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.query.view import StoreView
from rocketfsck.reader.configs import load_config
from rocketfsck.repair.state import LostMessages, lost_messages
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.lifting import Lifting, lifted

Value = TypeVar("Value")

CONFIG = "config"
"""The kind of damage that is a config which no broker loads."""

WORDS = pa.list_(pa.field("element", pa.string()))
TABLE = pa.map_(pa.string(), pa.string())
_INT = {"queue_id": pa.int32()}


def fields_of(kind: type, *left_out: str) -> list[pa.Field]:
    """The columns of a dataclass's members, in their order."""
    hints = get_type_hints(kind)
    names = [member.name for member in fields(kind) if member.name not in left_out]
    return [pa.field(name, _type_of(name, hints[name])) for name in names]


def _type_of(name: str, hint: Any) -> pa.DataType:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (found,) = [part for part in parts if part is not NoneType]
    if found is bool:
        return pa.bool_()
    if found is int:
        return _INT.get(name, pa.int64())
    origin = get_origin(found)
    if origin is tuple:
        return WORDS
    return TABLE if origin is not None and issubclass(origin, Mapping) else pa.string()


def row_of(value: Any, **more: Any) -> Row:
    """The members of a dataclass, and more, as values of the columns."""
    found = {member.name: getattr(value, member.name) for member in fields(value)} | more
    return {name: _plain(item) for name, item in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        return [printable(item) for item in value]
    if isinstance(value, Mapping):
        return [(printable(name), printable(item)) for name, item in value.items()]
    return value


@dataclass(slots=True)
class ReadConfigs:
    """The configs of one store, and a row for each that does not say what it should: `problems`."""

    store: Store
    wanted: WantedRows
    problems: list[Row] = field(default_factory=list)

    def value(self, name: str, decode: Callable[[bytes], Value]) -> tuple[Value | None, str | None]:
        """What a broker goes by, and the file that says it; (None, None) where nothing does.

        Raises StoreError for a file that cannot be read or loaded, as the options have it.
        """
        found = load_config(self.store, name, decode)
        place = None if found.file is None else printable(found.file.relative)
        if found.error is None or found.file is None:
            return found.value, place
        if isinstance(found.error, FormatError):
            error = StoreError(
                f"no broker loads this config: {found.error}",
                path=found.file.location,
                offset=found.error.offset,
            )
            self.damaged(error, found.file.relative, str(found.error))
        else:
            self.unreadable(found.error, found.file.relative)
        return None, None

    def damaged(self, error: StoreError, file: str, reason: str) -> None:
        """Take down damage, which ends a query of the mode FAILFAST with the error."""
        if self.wanted.mode == "FAILFAST":
            raise error
        if self.wanted.mode == "PERMISSIVE":
            self._put(CONFIG, reason, file, error)

    def unreadable(self, error: StoreError, file: str) -> None:
        """Take down what could not be read, which ends the query unless it is to go on without."""
        if not ignores(self.wanted, error):
            raise error
        if self.wanted.on_unreadable == "row":
            self._put(model.UNREADABLE, str(error), file, error)

    def databases(self, lifting: Lifting) -> None:
        """Take down what the databases do not say."""
        for name, error in sorted(lifting.failed.items()):
            self.unreadable(error, name)
        for name, odd in sorted(lifting.odd.items()):
            for row in odd.first.values():
                reason = f"row {row.key!r} of the family {row.family}: {row.reason}"
                self.damaged(StoreError(reason, path=str(self.store.root / name)), name, reason)

    def _put(self, kind: str, reason: str, file: str, error: StoreError) -> None:
        said = account(kind, printable(reason), file, start=error.offset or 0)
        self.problems.append({"file": printable(file), self.wanted.corrupt_column: said})


TOPICS_FILE, GROUPS_FILE, FILTERS_FILE = "topics.json", "subscriptionGroup.json", "consumerFilter.json"
_TIMES = frozenset({"next_timestamp", "last_timestamp", "age_ms"})
"""Columns for which messages are read."""
_TALLY = frozenset({"count", "first_timestamp", "last_timestamp"})
"""Columns for which queues are read."""
FILE = pa.field("file", pa.string())


def _answer(
    source: StoreSource, wanted: WantedRows, rows: Callable[[StoreView, ReadConfigs], Iterator[Row]]
) -> Iterator[Row]:
    """The rows that are made of a store's configs and queues, then those for what configs do not say."""
    with lifted(open_source(source)) as lifting, StoreView(lifting.store) as view:
        configs = ReadConfigs(lifting.store, wanted)
        configs.databases(lifting)
        yield from rows(view, configs)
        yield from configs.problems


def _decoder(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(formats_config.decode_config(data))


def _committed(configs: ReadConfigs) -> dict[str, tuple[str, Mapping[int, int]]]:
    """The file and the offsets of every `topic@group`."""
    found: dict[str, tuple[str, Mapping[int, int]]] = {}
    for name, offsets_of in formats_config.OFFSET_VIEWS.items():
        table, file = configs.value(name, _decoder(offsets_of))
        for key, offsets in (table or {}).items():
            found[key] = (file or "", offsets)
    return found


def offset_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:
    """The position of every group in every queue."""
    return _answer(source, wanted, partial(_offset_rows, times=bool(names & _TIMES)))


def _offset_rows(view: StoreView, configs: ReadConfigs, *, times: bool) -> Iterator[Row]:
    file_of: dict[query_offsets.Position, str] = {}
    for key, (file, offsets) in _committed(configs).items():
        file_of |= dict.fromkeys(query_offsets.positions_in({key: offsets}), file)
    levels, delays = configs.value(query_offsets.DELAY_FILE, _decoder(formats_config.delay_offsets))
    file_of |= dict.fromkeys(query_offsets.positions_of_levels(levels or {}), delays or "")
    for row in query_offsets.placed(view, file_of, times=times):
        counts = {name: getattr(row, name) for name in query_offsets.GROUP_COUNTS}
        place = (row.group, row.topic, row.queue_id, row.offset)
        yield row_of(row, **counts, file=file_of[place])


def topic_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:
    """Every topic that topics.json lists, or that has a queue."""
    return _answer(source, wanted, partial(_topic_rows, counts=bool(names & _TALLY)))


def _topic_rows(view: StoreView, configs: ReadConfigs, *, counts: bool) -> Iterator[Row]:
    listed, file = configs.value(TOPICS_FILE, _decoder(formats_config.topic_configs))
    listed = listed or {}
    ids: dict[str, set[int]] = {}
    for queue in view.store.queues:
        ids.setdefault(queue.topic, set()).add(queue.queue_id)
    queues: dict[str, list[query_offsets.QueueOffsets]] = {}
    for bounds in query_offsets.queue_offsets(view.store, view=view) if counts else ():
        queues.setdefault(bounds.topic, []).append(bounds)
    for topic in sorted(listed.keys() | ids.keys()):
        config = listed.get(topic)
        settings = {} if config is None else row_of(config, file=file)
        yield {
            **settings,
            "topic": printable(topic),
            "listed": config is not None,
            "queue_count": len(ids.get(topic, ())),
            **_tally(queues.get(topic, [])),
        }


def _tally(queues: list[query_offsets.QueueOffsets]) -> Row:
    first = [queue.first_timestamp for queue in queues if queue.first_timestamp is not None]
    last = [queue.last_timestamp for queue in queues if queue.last_timestamp is not None]
    return {
        "count": sum(queue.count for queue in queues),
        "first_timestamp": min(first, default=None),
        "last_timestamp": max(last, default=None),
    }


def subscription_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """Every group and topic that a subscription or an offset names; a group without any has one row."""
    return _answer(source, wanted, _subscription_rows)


def _subscription_rows(view: StoreView, configs: ReadConfigs) -> Iterator[Row]:  # noqa: ARG001
    def read(
        value: Any,
    ) -> tuple[Mapping[str, formats_config.SubscriptionGroup], list[formats_config.Subscription]]:
        return formats_config.subscription_groups(value), formats_config.group_subscriptions(value)

    groups, file = configs.value(GROUPS_FILE, _decoder(read))
    none: tuple[dict[str, formats_config.SubscriptionGroup], list[formats_config.Subscription]] = ({}, [])
    settings, stated = groups or none
    filters, _ = configs.value(FILTERS_FILE, _decoder(formats_config.filter_subscriptions))
    found = {(one.group, one.topic): one for one in (*stated, *(filters or ()))}
    queue_counts: dict[tuple[str, str], int] = {}
    for key, (_, offsets) in _committed(configs).items():
        topic, group = formats_config.split_topic_group(key) or (key, "")
        queue_counts[group, topic] = len(offsets)
    named = found.keys() | queue_counts.keys()
    consuming = {group for group, _ in named}
    alone = {(str(group), "") for group in settings if group not in consuming}
    for group, topic in sorted(named | alone):
        subscribed = found.get((group, topic))
        known = settings.get(group)
        yield {
            **({} if subscribed is None else row_of(subscribed)),
            **({} if known is None else row_of(known, file=file)),
            "group": printable(group),
            "topic": printable(topic) or None,
            "queue_count": queue_counts.get((group, topic), 0),
            "listed": known is not None,
        }


NOT_COUNTED = "the messages were not counted: a broker is running, or the check stopped early"


def lost_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """The ranges of the account; one row for those that it counts only; then what could not be read."""
    store = open_source(source)
    report = checked(store, wanted)
    problems = list(left_out_rows(report, wanted))
    if report.account is None:
        raise StoreError(NOT_COUNTED, path=str(store.root))
    for lost in lost_messages(store, report.account):
        yield row_of(lost)
    if report.account.unlisted_count:
        yield {"message_count": report.account.unlisted_count}
    yield from problems


def start_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """Every version that the store may come from."""
    store = open_source(source)
    for prediction in start_verdict.predict_each(
        store, start_verdict.start_classes(start_verdict.versions_of(store))
    ):
        _demand_read(prediction, wanted)
        verdict = start_verdict.verdict_of(prediction)
        for version in prediction.alike:
            yield row_of(replace(verdict, version=version), harmless=verdict.harmless)


def _demand_read(prediction: start_verdict.Prediction, wanted: WantedRows) -> None:
    """Raise the error of a store that could not be read, unless the rows are to go on without."""
    error = prediction.error
    if error is not None and not isinstance(error, NotCoveredError) and not ignores(wanted, error):
        raise error


_LONG = pa.int64()
ANSWERS: dict[str, tuple[list[pa.Field], model.Rows]] = {
    "offsets": (
        [FILE, *fields_of(query_offsets.GroupOffsets), *typed(_LONG, *query_offsets.GROUP_COUNTS)],
        offset_rows,
    ),
    "topics": (
        [
            *typed(pa.string(), "file", "topic"),
            *typed(pa.bool_(), "listed"),
            *fields_of(formats_config.TopicConfig, "topic_name"),
            *typed(_LONG, "queue_count", "count", "first_timestamp", "last_timestamp"),
        ],
        topic_rows,
    ),
    "subscriptions": (
        [
            FILE,
            *fields_of(formats_config.Subscription),
            *typed(_LONG, "queue_count"),
            *typed(pa.bool_(), "listed"),
            *fields_of(formats_config.SubscriptionGroup, "group_name"),
        ],
        subscription_rows,
    ),
    "lost": ([*fields_of(LostMessages), FILE], lost_rows),
    "starts": ([*fields_of(start_verdict.StartVerdict), *typed(pa.bool_(), "harmless")], start_rows),
}
"""The columns and rows of the views that are answers of commands (`views.table`)."""
