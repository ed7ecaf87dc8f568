"""Stores as a broker writes them, byte for byte: messages in, a directory out. Reference 1 to 6.

    from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
    messages = [OutgoingMessage("TopicTest", b"hello", 1_700_000_000_000, properties={"KEYS": "order-1"})]
    write_store("store", messages, WriteOptions(version="4.9.8"))

Layers: `messages` and `options` say what is wanted, `compose` makes records of messages, `commitlog`,
`consumequeue` and `indexfile` append, `dispatch` leads from the log to the others, `storewriter` holds the
state, `restart` and `resume` go on, `writing` publishes the whole. Nothing here is shared with `verify`.
Names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.writer.manifest import PutRecord as PutRecord
    from rocketfsck.writer.manifest import WrittenQueue as WrittenQueue
    from rocketfsck.writer.manifest import WrittenStore as WrittenStore
    from rocketfsck.writer.message.messages import Event as Event
    from rocketfsck.writer.message.messages import Expiry as Expiry
    from rocketfsck.writer.message.messages import Kind as Kind
    from rocketfsck.writer.message.messages import MessageError as MessageError
    from rocketfsck.writer.message.messages import OutgoingMessage as OutgoingMessage
    from rocketfsck.writer.message.messages import Restart as Restart
    from rocketfsck.writer.message.messages import op_message as op_message
    from rocketfsck.writer.options import EndState as EndState
    from rocketfsck.writer.options import WriteOptions as WriteOptions
    from rocketfsck.writer.writing import write_store as write_store

__getattr__ = late_names(
    __name__,
    {
        "message.messages": "Event Expiry Kind MessageError OutgoingMessage Restart op_message",
        "options": "EndState WriteOptions",
        "manifest": "PutRecord WrittenQueue WrittenStore",
        "writing": "write_store",
    },
)
