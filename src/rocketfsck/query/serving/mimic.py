"""A broker's answers as `Answer`s: its records in its order, repeated where it repeats them.

Reference 4.7, 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketfsck.formats.javatext import TAG_KEY_PREFIX
from rocketfsck.query.answers import BROKER, Answer, Found, Lead, Outcome
from rocketfsck.query.serving.broker import DEFAULT_QUERY_NUM, BrokerView
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.query.trace import Trace
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store

_STATES = {
    "started": "a broker gives this answer after a start on this store",
    "running": "a broker gives this answer while running on these files",
}


def answer_of(
    broker: BrokerView,
    offsets: Iterable[int],
    trace: Trace,
    why: str = "",
    pull: PullAnswer | None = None,
    store: Store | None = None,
) -> Answer:
    """The records at these offsets in this order; what is not a record becomes a lead. `why` is for none.

    `store` is the one whose log the offsets are in, if not that of the broker.
    """
    found: list[Found] = []
    leads: list[Lead] = []
    with StoreView(store or broker.store) as view:
        for offset in offsets:
            message = view.log.message_at(offset)
            if isinstance(message, Message):
                found.append(view.found(message, offset, BROKER))
            else:
                leads.append(Lead(offset, "the answer", "the bytes there are not a record"))
    outcome = Outcome.FOUND if found or leads else Outcome.NOT_FOUND
    said = "" if found else why
    return Answer(outcome, tuple(found), said, leads=tuple(leads), trace=trace, pull=pull)


def broker_by_key(
    broker: BrokerView,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    tag: bool = False,
    begin_timestamp: int | None = None,
    end_timestamp: int | None = None,
    max_count: int | None = None,
) -> Answer:
    """`queryMessage` for a key: at most 64, or 32 for a unique key; the window is in index time, closed.

    Messages of other keys with the same hash are among them: clients leave those out, brokers do not.
    With `tag` the key is all of TAGS; UsageError for a version before 5.4.0.
    """
    trace = Trace(f"{topic}#{TAG_KEY_PREFIX if tag else ''}{key}")
    most = DEFAULT_QUERY_NUM if unique else max_count
    stated = {
        name: value
        for name, value in (
            ("max_num", most),
            ("begin_timestamp", begin_timestamp),
            ("end_timestamp", end_timestamp),
        )
        if value is not None
    }
    offsets = broker.query_message(topic, key, trace=trace, by_tags=tag, unique=unique, **stated)
    return answer_of(broker, offsets, trace, f"a {broker.version} broker finds nothing")


def broker_by_offset(
    broker: BrokerView, topic: str, queue_id: int, queue_offset: int, max_count: int = 1
) -> Answer:
    """`getMessage` for a queue offset, with the status and where to go on as `pull` and in the trace."""
    trace = Trace()
    pulled = broker.get_message(topic, queue_id, queue_offset, max_count)
    said = (
        f"{pulled.status}: minOffset {pulled.min_offset}, maxOffset {pulled.max_offset}, "
        f"nextBeginOffset {pulled.next_begin_offset}"
    )
    trace.notes += [said, _STATES[broker.state]]
    why = f"a {broker.version} broker answers {said}"
    store = broker.message_store(topic, queue_id)
    return answer_of(broker, pulled.offsets, trace, why, pulled, store)


def broker_by_id(broker: BrokerView, text: str) -> Answer:
    """`lookMessageByOffset` for an offset id: the host in it is not compared."""
    from rocketfsck.formats.messageid import decode_offset_id

    offset = decode_offset_id(text).physical_offset
    offsets = [offset] if broker.holds_record(offset) else []
    why = f"a {broker.version} broker finds no message at physical offset {offset}"
    return answer_of(broker, offsets, Trace(), why)
