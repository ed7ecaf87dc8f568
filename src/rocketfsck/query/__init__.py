"""The broker's four query paths, offline, and what a broker would do on start. Reference 4.7, 6 and 7.

    find_by_id(store, text)                       by offset message id or unique id
    find_by_offset(store, topic, queue, offset)   by place in a consume queue
    find_by_key(store, topic, key, …)             by key or unique key, through the index, the log, or both
    find_by_time(store, topic, queue, time)       the place of a time in a queue
    find_by_expression(store, text)               by anything else
    message_life(store, text)                     what became of one message
    queue_offsets(store), group_offsets(store)    bounds of queues, positions and lags of groups
    timed_messages(store)                         messages that wait for a timer
    BrokerView(store, version)                    what a broker of that version answers, exactly
    simulate_start(store, version)                what a broker of that version would do on start

Names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.query.answers import Answer as Answer
    from rocketfsck.query.answers import Found as Found
    from rocketfsck.query.answers import Outcome as Outcome
    from rocketfsck.query.content.evaluate import find_by_expression as find_by_expression
    from rocketfsck.query.ids import find_by_id as find_by_id
    from rocketfsck.query.keys import find_by_key as find_by_key
    from rocketfsck.query.life import message_life as message_life
    from rocketfsck.query.offsets import group_offsets as group_offsets
    from rocketfsck.query.offsets import queue_offsets as queue_offsets
    from rocketfsck.query.places import find_by_offset as find_by_offset
    from rocketfsck.query.places import find_by_time as find_by_time
    from rocketfsck.query.serving.broker import BrokerView as BrokerView
    from rocketfsck.query.start.model import Start as Start
    from rocketfsck.query.start.simulate import simulate_start as simulate_start
    from rocketfsck.query.timers import timed_messages as timed_messages

_HOMES = {
    "answers": "Answer Found Outcome",
    "content.evaluate": "find_by_expression",
    "ids": "find_by_id",
    "keys": "find_by_key",
    "life": "message_life",
    "offsets": "group_offsets queue_offsets",
    "places": "find_by_offset find_by_time",
    "serving.broker": "BrokerView",
    "start.model": "Start",
    "start.simulate": "simulate_start",
    "timers": "timed_messages",
}
__getattr__ = late_names(__name__, _HOMES)
__all__ = " ".join(_HOMES.values()).split()
