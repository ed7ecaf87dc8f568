"""Finds messages by id, queue offset, key, time and content; their lives; offsets of groups, and timers.

Each query is a dataclass of options, and a function that gives a `QueryAnswer`: what was found, with masks
where they are wanted, and the exit status. `query_scan` gives messages as they are found.

What a store held, and what consumers could get of it, at a time in the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, TypeVar

from rocketfsck.commands import shared
from rocketfsck.common.options import Argument, Option, PutAfter
from rocketfsck.common.rows import Text
from rocketfsck.errors import EXIT_OPERATIONAL, FormatError, UsageError

if TYPE_CHECKING:
    from rocketfsck.commands.masks import Masks
    from rocketfsck.query.answers import Answer, Found, Outcome
    from rocketfsck.query.evidence import TextEvidence
    from rocketfsck.query.life import Life
    from rocketfsck.query.offsets import GroupOffsets, QueueOffsets, StoreThen
    from rocketfsck.query.places import TimeAnswer
    from rocketfsck.query.retention import Retention
    from rocketfsck.query.timers import TimedMessage
    from rocketfsck.query.view import StoreView
    from rocketfsck.store import Store

Value = TypeVar("Value")
_NAMED = ("topic", "key", "group", "name", "message_id", "text")
"""Options that an answer may repeat."""

FOUND_CODE, NOT_FOUND_CODE, AMBIGUOUS_CODE = 0, 4, 64
"""Of the table of exit statuses: 4 leaves the question open; with 8, because what it is about is not there to
be read; with 16, because it can be put in two ways. One that cannot be put at all is 16, as everywhere."""

FOUND_SHOWN = 3

Via = Annotated[
    Literal["auto", "index", "scan", "both"],
    Option(
        "auto: the index, and the log where the index does not reach. both: what the index hides, too.",
        shows_default=True,
    ),
]
State = Annotated[
    Literal["started", "running"] | None,
    Option(
        "With --as-broker: the answers once it has started on the store (the default), or of one that "
        "runs on these files (the default where one does)."
    ),
]
OfTopic = Annotated[str, PutAfter("path"), Argument()]
QueueId = Annotated[int, Argument(metavar="QUEUE")]


@dataclass(frozen=True, slots=True)
class QueryAnswer(Generic[Value]):
    """What a query found, the store that was asked, and the exit status of the answer by itself."""

    store: Store
    found: Value
    code: int

    @property
    def exit_code(self) -> int:
        """The exit status: that of the answer, and whether it is incomplete, as databases were not read."""
        return self.code | (EXIT_OPERATIONAL if self.store.lifted.failed else 0)


@dataclass(frozen=True, slots=True)
class BrokerTime:
    """What a broker answers for a time: a queue offset, and in which state of the store."""

    outcome: Text
    offset: int
    broker: Text
    state: Text


@dataclass(frozen=True, slots=True)
class OffsetsFound:
    """Queues and groups; `problem` says why there are no groups, where a config file cannot be used."""

    queues: tuple[QueueOffsets, ...]
    groups: tuple[GroupOffsets, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class TextFound:
    """All that a text is; the text is masked where the answer is."""

    text: str
    evidence: tuple[TextEvidence, ...]


@dataclass(frozen=True, slots=True)
class Scanned:
    """Messages as they are found. `unread` are the messages, by reason, whose content was not searched as a
    whole: all of them once `found` has ended."""

    store: Store
    expression: str
    found: Iterator[Found]
    unread: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCommand:
    """Which store is asked."""

    query: ClassVar[str]
    path: shared.StorePlace
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)
    masking: shared.Masking = field(default_factory=shared.Masking)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdQuery(QueryCommand):
    """A message by its id."""

    query: ClassVar[str] = "id"
    message_id: Annotated[str, PutAfter("path"), Argument(metavar="MSGID")]
    reading: Annotated[
        Literal["either", "offset", "unique"],
        Option("Which kind of id it is; both kinds look alike.", names=("--as",)),
    ] = "either"
    via: Via = "auto"
    as_broker: shared.AsBroker = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetQuery(QueryCommand):
    """A message by its queue offset."""

    query: ClassVar[str] = "offset"
    topic: OfTopic
    queue_id: QueueId
    queue_offset: Annotated[int, Argument(metavar="OFFSET")]
    limit: Annotated[int, Option("Show at most N.", metavar="N", least=0)] = 1
    via: Via = "auto"
    as_broker: shared.AsBroker = None
    state: State = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKeyQuery(QueryCommand):
    """Messages of a topic by their unique key; without bodies where nobody wants them."""

    query: ClassVar[str] = "unique-key"
    topic: OfTopic
    key: Annotated[str, Argument()]
    times: shared.WantedTimes = field(default_factory=shared.WantedTimes)
    limit: shared.Limit = None
    via: Via = "auto"
    as_broker: shared.AsBroker = None
    with_bodies: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOrTagQuery(UniqueKeyQuery):
    """Messages of a topic by a key, or by their tags."""

    query: ClassVar[str] = "key"
    kind: Annotated[
        Literal["key", "tag"],
        PutAfter("key"),
        Option(
            "key: KEY is among KEYS or the UNIQ_KEY. tag: KEY is all of TAGS, which brokers index since "
            "5.4.0.",
            names=("--type",),
            shows_default=True,
        ),
    ] = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeQuery(QueryCommand):
    """A queue offset by a time (ms)."""

    query: ClassVar[str] = "time"
    topic: OfTopic
    queue_id: QueueId
    timestamp: Annotated[int, Argument(kind="time")]
    boundary: Annotated[
        Literal["lower", "upper"],
        Option("With --as-broker: the first message of that time or later, or the last one until then."),
    ] = "lower"
    as_broker: shared.AsBroker = None
    state: State = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuery(QueryCommand):
    """Messages by an expression; without bodies where nobody wants them."""

    query: ClassVar[str] = "scan"
    expression: Annotated[str, PutAfter("path"), Argument()]
    limit: shared.Limit = None
    physical_offsets: shared.PhysicalOffsets = None
    with_bodies: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeQuery(QueryCommand):
    """The life of a message."""

    query: ClassVar[str] = "life"
    name: Annotated[str, PutAfter("path"), Argument(metavar="MSGID|UNIQKEY")]
    via: Via = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsQuery(QueryCommand):
    """The bounds of queues, and where consumer groups are."""

    query: ClassVar[str] = "offsets"
    topic: Annotated[str | None, PutAfter("path"), Option("Only this topic.")] = None
    group: Annotated[str | None, Option("Only this consumer group.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersQuery(QueryCommand):
    """Messages that wait."""

    query: ClassVar[str] = "timers"
    times: Annotated[shared.WantedTimes, PutAfter("path")] = field(default_factory=shared.WantedTimes)
    limit: shared.Limit = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionQuery(QueryCommand):
    """What retention deletes."""

    query: ClassVar[str] = "retention"
    as_of: Annotated[int | None, PutAfter("path"), Option("Foresee from here, not now.", kind="time")] = None
    time_zone: shared.TimeZone = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindQuery(QueryCommand):
    """Whatever somebody has of a message or a store."""

    query: ClassVar[str] = "find"
    text: Annotated[str, PutAfter("path"), Argument(metavar="TEXT")]
    limit: shared.Limit = None


_OF_FEW_QUEUES = (IdQuery, OffsetQuery, UniqueKeyQuery, TimeQuery, ScanQuery, LifeQuery)


def query_id(options: IdQuery) -> QueryAnswer[Answer]:
    """Find the message with an offset message id or a unique id. Raises UsageError, StoreError."""
    from rocketfsck.query.ids import check_id, find_by_id

    check_id(options.message_id)
    with opened(options) as (store, masks):
        if options.as_broker is not None:
            from rocketfsck.query.serving.broker import BrokerView, broker_by_id

            with BrokerView(store, options.as_broker) as asker:
                answer = broker_by_id(asker, options.message_id)
        else:
            with _view(store, options.via) as view:
                answer = find_by_id(
                    store, options.message_id, reading=options.reading, via=options.via, view=view
                )
        return QueryAnswer(store, masked(masks, answer), _exit_code(answer.outcome, answer.found))


def query_offset(options: OffsetQuery) -> QueryAnswer[Answer]:
    """Find the message at a queue offset of a topic's queue. Raises UsageError, StoreError."""
    from rocketfsck.query.places import find_by_offset, with_tiered_offset

    place = (options.topic, options.queue_id, options.queue_offset)
    with opened(options) as (store, masks):
        if options.as_broker is not None:
            from rocketfsck.query.serving.broker import BrokerView, broker_by_offset

            with BrokerView(store, options.as_broker, state=options.state) as asker:
                answer = broker_by_offset(asker, *place, options.limit)
        else:
            with _view(store, options.via) as view:
                found = find_by_offset(store, *place, via=options.via, view=view)
                answer = with_tiered_offset(store, found, *place)
        return QueryAnswer(store, masked(masks, answer), _code_of(answer, options.via))


def query_key(options: UniqueKeyQuery) -> QueryAnswer[Answer]:
    """Find the messages of a topic with this UNIQ_KEY; of a `KeyOrTagQuery`, with this key or these tags.

    Raises UsageError, StoreError.
    """
    from rocketfsck.query.places import find_by_key
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    given = {
        "begin_timestamp": options.times.begin,
        "end_timestamp": options.times.end,
        "max_count": options.limit,
    }
    window = {name: value for name, value in given.items() if value is not None}
    kind = options.kind if isinstance(options, KeyOrTagQuery) else "unique"
    unique, tag = kind == "unique", kind == "tag"
    with opened(options) as (store, masks):
        if options.as_broker is not None:
            from rocketfsck.query.serving.broker import BrokerView, broker_by_key

            with BrokerView(store, options.as_broker) as asker:
                answer = broker_by_key(asker, options.topic, options.key, unique=unique, tag=tag, **window)
        else:
            with _view(store, options.via) as view:
                answer = find_by_key(
                    store,
                    options.topic,
                    options.key,
                    unique=unique,
                    tag=tag,
                    via=options.via,
                    max_body_size=MAX_BODY_SIZE if options.with_bodies else 0,
                    view=view,
                    **window,
                )
        return QueryAnswer(store, masked(masks, answer), _code_of(answer, options.via))


def query_time(options: TimeQuery) -> QueryAnswer[TimeAnswer] | QueryAnswer[BrokerTime]:
    """Find the queue offset of a time, as consumers seek. Raises UsageError, StoreError."""
    from rocketfsck.query.places import find_by_time

    place = (options.topic, options.queue_id, options.timestamp)
    with opened(options) as (store, masks):
        if options.as_broker is None:
            found = find_by_time(store, *place)
            return QueryAnswer(store, masked(masks, found), _exit_code(found.outcome))
        from rocketfsck.query.serving.broker import BrokerView

        with BrokerView(store, options.as_broker, state=options.state) as view:
            offset = view.offset_in_queue_by_time(*place, options.boundary)
            return QueryAnswer(store, BrokerTime("found", offset, str(view.version), view.state), FOUND_CODE)


@contextmanager
def query_scan(options: ScanQuery) -> Iterator[Scanned]:
    """Find messages by an expression over their fields and bodies, within the context.

    Raises ExpressionError for a mistake in it, UsageError, StoreError.
    """
    from rocketfsck.query.content.evaluate import Expression, find_by_expression
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    wanted = Expression(options.expression)
    start_offset, end_offset = options.physical_offsets or (0, None)
    with opened(options) as (store, masks):
        found = find_by_expression(
            store,
            wanted,
            max_count=options.limit,
            start_offset=start_offset,
            end_offset=end_offset,
            max_body_size=MAX_BODY_SIZE if wanted.needs_body or options.with_bodies else 0,
        )
        expression = options.expression if masks is None else masks.of(options.expression, "expression")
        yield Scanned(store, expression, (masked(masks, item) for item in found), wanted.unread)


def query_life(options: LifeQuery) -> QueryAnswer[Life]:
    """Find all that happened to one message. Raises UsageError, StoreError."""
    from rocketfsck.query.life import message_life

    if not options.name:
        raise UsageError("a message id or unique key needs at least one character")
    with opened(options) as (store, masks), _view(store, options.via) as view:
        life = message_life(store, options.name, via=options.via, view=view)
        return QueryAnswer(store, masked(masks, life), _exit_code(life.outcome, life.records))


def query_offsets(options: OffsetsQuery) -> QueryAnswer[OffsetsFound]:
    """Find the bounds of every queue, and the position of each consumer group: a config file that cannot be
    used takes the groups away, not the queues. Raises UsageError, StoreError."""
    from rocketfsck.query.offsets import group_offsets, queue_offsets
    from rocketfsck.query.view import StoreView

    topic, group = options.topic, options.group
    groups: list[GroupOffsets] = []
    problem = None
    with opened(options) as (store, masks), StoreView(store) as view:
        queues = [] if group is not None else list(queue_offsets(store, topic=topic, view=view))
        try:
            groups = group_offsets(store, topic=topic, group=group, view=view, times=True)
        except FormatError as error:
            problem = f"no groups: a file in config/ cannot be used: {error}"
        found = OffsetsFound(masked(masks, tuple(queues)), masked(masks, tuple(groups)), problem)
        code = FOUND_CODE if queues or groups else NOT_FOUND_CODE
        return QueryAnswer(store, found, code if problem is None else EXIT_OPERATIONAL)


def query_find(options: FindQuery) -> QueryAnswer[TextFound]:
    """Find all that a text is in the store, each with FOUND_SHOWN messages, if no limit is given. Raises
    UsageError, StoreError."""
    from rocketfsck.query.evidence import find_evidence
    from rocketfsck.query.view import StoreView

    if not options.text:
        raise UsageError("nothing to look for")
    with opened(options) as (store, masks), StoreView(store) as view:
        limit = FOUND_SHOWN if options.limit is None else options.limit
        found = tuple(find_evidence(view, options.text, str(options.path), limit))
        said = TextFound(masked(masks, options.text), masked(masks, found))
        return QueryAnswer(store, said, FOUND_CODE if found else NOT_FOUND_CODE)


def query_timers(options: TimersQuery) -> QueryAnswer[tuple[TimedMessage, ...]]:
    """Find messages that wait for a timer or delay level, as they are due. Raises UsageError, StoreError."""
    from rocketfsck.query.timers import timed_messages

    with opened(options) as (store, masks):
        times = options.times
        found = tuple(timed_messages(store, begin=times.begin, end=times.end, max_count=options.limit))
        return QueryAnswer(store, masked(masks, found), FOUND_CODE if found else NOT_FOUND_CODE)


def query_retention(options: RetentionQuery) -> QueryAnswer[Retention]:
    """Find what retention deletes, and when. Raises UsageError, StoreError."""
    from rocketfsck.query.retention import foresee_retention, retention_rules
    from rocketfsck.query.view import StoreView

    with opened(options) as (store, masks), StoreView(store) as view:
        found = foresee_retention(view, retention_rules(store, options.time_zone, options.as_of))
        code = EXIT_OPERATIONAL if found.problem else NOT_FOUND_CODE if len(found.files) < 2 else FOUND_CODE
        return QueryAnswer(store, masked(masks, found), code)


@contextmanager
def opened(options: QueryCommand) -> Iterator[tuple[Store, Masks | None]]:
    """The store with the queues and configs of its databases, and masks that know its names.

    Who asks for a message gets the queues as a view of the store looks at them; brokers' starts take all."""
    from rocketfsck.store.rocks.lifting import lifted

    masks = options.masking.masks()
    late = isinstance(options, _OF_FEW_QUEUES) and getattr(options, "as_broker", None) is None
    with lifted(options.stated.open(f"query {options.query}", options.path), late=late) as lifting:
        if masks is not None:
            masks.learn_store(lifting.store)
            named = (getattr(options, name, None) for name in _NAMED)
            masks.learn(name for name in named if isinstance(name, str))
        yield lifting.store, masks


def masked(masks: Masks | None, value: Value) -> Value:
    return value if masks is None else masks.of(value)


def _view(store: Store, via: str) -> StoreView:
    """The store for a query: a large file is walked where nothing less tells whether a message in it is live,
    unless the index alone is asked."""
    from rocketfsck.query.view import StoreView

    return StoreView(store, walks=via != "index")


def _exit_code(outcome: Outcome, found: Iterable[Found] = ()) -> int:
    """The exit status of an answer with these messages."""
    from rocketfsck.query.answers import is_settled

    codes = {
        "found": FOUND_CODE,
        "not-found": NOT_FOUND_CODE,
        "unknown-topic": NOT_FOUND_CODE,
        "ambiguous": AMBIGUOUS_CODE,
    }
    return codes[outcome.value] | (0 if is_settled(found) else EXIT_OPERATIONAL)


def _code_of(answer: Answer, via: str) -> int:
    """The exit status of an answer, in which the index may hide messages."""
    is_hiding = via == "both" and bool(answer.hidden)
    return _exit_code(answer.outcome, answer.found) | (NOT_FOUND_CODE if is_hiding else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfQuery(QueryCommand):
    """A store at a time (ms)."""

    query: ClassVar[str] = "as-of"
    timestamp: Annotated[int, PutAfter("path"), Argument(metavar="TIME", kind="time")]
    topic: Annotated[str | None, Option("Only this topic.")] = None


def query_as_of(options: AsOfQuery) -> QueryAnswer[StoreThen]:
    """Find what the store held at a time. Raises UsageError, StoreError."""
    from rocketfsck.query.offsets import store_as_of
    from rocketfsck.query.view import StoreView

    with opened(options) as (store, masks), StoreView(store) as view:
        found = store_as_of(view, options.timestamp, topic=options.topic)
        return QueryAnswer(store, masked(masks, found), FOUND_CODE if found.queues else NOT_FOUND_CODE)
