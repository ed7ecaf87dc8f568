"""Why a finding stays as it is: where no repair answers its rule, or not always."""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.rulenames import RuleName

_OWN = "the record is as its producer sent it, or nobody can tell what it was; brokers go on behind it"
_COPY = "only another copy of the store can tell: rocketfsck compare"

IMPOSSIBLE = "no directory can have the topic's name, so that no broker can make a queue for it"
NEGATIVE = "no queue has a negative queueId: the record is damaged, and its own queue misses it"
CONTESTED = "what this queue should hold is not in the log alone: it lacks messages, or has two for one place"
_TIERED = "no repair changes tiered storage: "
_TIERED_METADATA = (
    _TIERED + "keep every broker from starting, which writes the metadata anew and makes missing segments "
    "empty; get both back from a copy of the same moment"
)
_TIERED_RECORD = _TIERED + "the commit log may still have the message; " + _COPY
_TIERED_INDEX = _TIERED + "queries by key and by offset of what the commit log still has go on without it"
HIDDEN = "a BLANK hides records that the queue may need: plan again once this plan is applied"
OF_DLEDGER = (
    "the commit log is DLedger's: no repair changes it, or what its recovery goes by; a copy of the whole "
    "store of a healthy node of the group replaces it"
)
NO_LOG = (
    "no sound record is left in the log, and queues and index are the best evidence of what it held: salvage "
    "the log, or copy it back, before {repair}; --only {repair} forces it"
)
NO_FILE = "something that is no file has the name of a file of the queue: move it away and plan again"
LINKED = "a symbolic link is there, or leads there: a repair changes neither links nor what they lead to"
DEAD_LINK = "a symbolic link to nowhere is where it belongs: mount what it leads to, or remove the link"
NO_TEXT = "the topic's bytes are no text, so that a broker makes a queue of another name for it"

_DATABASE = (
    "no plan changes a RocksDB; one of consume queues is made anew, beside the store, by "
    "rocketfsck rebuild consumequeue --into DIRECTORY"
)

REASONS: Mapping[str, str] = {
    RuleName.SEGMENT_LENGTH: "what lies behind the length that it should have is not zero: it may be data",
    RuleName.SEGMENT_GAP: (
        "what is missing is no whole number of files, or too much: get the files from where they are"
    ),
    RuleName.SEGMENT_OVERLAP: (
        "two segments hold the same offsets, and which one is right is not in the files; "
    )
    + _COPY,
    RuleName.SEGMENT_TWICE: "both files hold data; " + _COPY,
    RuleName.SEGMENT_ALIGNMENT: (
        "segments of another size were mixed in; set mappedFileSizeCommitLog to what wrote them"
    ),
    RuleName.COMMITLOG_MISSING: "the commit log is somewhere else: mount it before any broker starts",
    RuleName.QUEUES_OF_ANOTHER_LOG: "queues and commit log are of two stores: find the log that belongs here",
    RuleName.NOT_A_STORE: "there is nothing to repair here",
    RuleName.QUEUE_KIND_TWICE: (
        "both kinds of queues hold units, and which one consumers use is the topic's own setting"
    ),
    RuleName.QUEUE_KIND_ATTRIBUTE: "the topic has queues of both kinds",
    RuleName.LINK_DANGLING: "what the link leads to is not here: mount it, or remove the link",
    RuleName.LOG_BOUNDARY_LOST: "too few bytes to hold a filler record: salvage writes a store without them",
    RuleName.RECORD_MALFORMED: "too few bytes to hold a filler record: salvage writes a store without them",
    RuleName.RECORD_BODY_CRC: "no single flipped bit explains it, so body or CRC may be the wrong one; "
    + _COPY,
    RuleName.RECORD_PROPERTY_CRC: "which byte of the record changed is not known; " + _COPY,
    RuleName.RECORD_PHYSICAL_OFFSET: (
        "no unit says that the record belongs where it stands: salvage judges it by its content"
    ),
    RuleName.RECORD_SYS_FLAG: _OWN,
    RuleName.RECORD_HOST_PORT: _OWN,
    RuleName.RECORD_NEGATIVE_FIELD: _OWN,
    RuleName.RECORD_TOPIC: _OWN,
    RuleName.RECORD_PROPERTIES_NUL: "the body is sound; which properties were lost is in no other file",
    RuleName.RECORD_DELAY_LEVEL: _OWN,
    RuleName.RECORD_INNER_BATCH: _OWN,
    RuleName.RECORD_END_OF_FILE: _OWN,
    RuleName.RECORD_COMPRESSED_BODY: _OWN,
    RuleName.BLANK_TOO_EARLY: (
        "no unit leads to what the BLANK hides: it may be left of an earlier life of the log; "
    )
    + _COPY,
    RuleName.PREPARED_RECORD_MISSING: "whether the half message expired or is lost is not in the log",
    RuleName.QUEUE_OFFSET_REPEATED: (
        "the log has two messages for one place in the queue, which can show only one"
    ),
    RuleName.QUEUE_OFFSET_GAP: "the messages between are not in the log; " + _COPY,
    RuleName.LOG_NO_RECORDS: "there is no sound record in the whole log: salvage looks at every byte",
    RuleName.RECORD_TOO_NEW: "run a broker of 5.1.0 or later on it",
    RuleName.RECORD_INNER_BATCH_FLAG: _OWN,
    RuleName.RECORD_PREPARED_OFFSET: _OWN,
    RuleName.RECORD_COMMIT_FLAG: _OWN,
    RuleName.RECORD_RECONSUME_TIMES: _OWN,
    RuleName.RECORD_BORN_TIMESTAMP: _OWN,
    RuleName.TIMER_FILE_MISSING: "what it held is in no other file: get it back before any broker starts",
    RuleName.TIMER_LOG_GAP: "the units of a timer log are in no other file; " + _COPY,
    RuleName.TIERED_METADATA: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_MISSING: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_UNLISTED: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_SHORT: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_LONG: _TIERED + "the next start corrects the size of a queue's last segment",
    RuleName.TIERED_SEGMENT_GAP: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_TIME: _TIERED + "the times are corrected by the broker with the next message",
    RuleName.TIERED_RECORD: _TIERED_RECORD,
    RuleName.TIERED_BODY_CRC: _TIERED_RECORD,
    RuleName.TIERED_UNIT: _TIERED_RECORD,
    RuleName.TIERED_RECORD_WITHOUT_UNIT: _TIERED + "a broker that still has the messages writes them again",
    RuleName.TIERED_NOT_AS_LOCAL: _TIERED + "which of the two is right is not in the files; " + _COPY,
    RuleName.TIERED_CODA: _TIERED + "nobody reads the time",
    RuleName.TIERED_INDEX_HEADER: _TIERED_INDEX,
    RuleName.TIERED_INDEX_SLOT: _TIERED_INDEX,
    RuleName.TIERED_INDEX_ITEM: _TIERED_INDEX,
    RuleName.TIERED_KEY_UNINDEXED: _TIERED_INDEX,
    RuleName.CONFIG_LOST: (
        "neither the file nor a .bak has anything left: write it anew, or copy it from another broker"
    ),
    RuleName.CONFIG_BACKUP_NEWER: "the .bak has another shape than the broker loads",
    RuleName.CONFIG_SHAPE: (
        "there is no .bak of the right shape: write it anew, or copy it from another broker"
    ),
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS: (
        "the units that the group consumed are gone: it waits until the queue has grown past"
    ),
    RuleName.CONSUMER_OFFSET_NEGATIVE: "where the group was is not known: reset it when the broker runs",
    RuleName.ABORT_PRESENT: (
        "damage of the log is left that an abnormal recovery would meet, or something that this version "
        "does not know is in the store: leave the recovery to the broker"
    ),
    RuleName.INDEX_FILE_DOOMED: "there is no checkpoint to note the index file's end in",
    RuleName.RECORD_WITHOUT_UNIT: "the log has two messages for this place in the queue",
    RuleName.UNIT_BEYOND_LOG: (
        "the queues are of another log, or not all units behind these point behind the log"
    ),
    RuleName.UNIT_GHOST: "the log has two messages for this place in the queue",
    RuleName.UNIT_SHIFTED: "the log has two messages for this place in the queue",
    RuleName.UNIT_OF_DAMAGED_RECORD: "the messages are lost with the bytes that they stood in; " + _COPY,
    RuleName.UNIT_IN_MISSING_SEGMENT: "the messages are lost with their file; " + _COPY,
    RuleName.MULTI_DISPATCH_LISTS: "the lists are the record's own: brokers write no further units for it",
    RuleName.ENTRY_IN_MISSING_SEGMENT: (
        "the messages are lost with their file; the entries go when the index is built again"
    ),
    **dict.fromkeys(
        (
            RuleName.DATABASE_FILE_MISSING,
            RuleName.DATABASE_FILE_DAMAGED,
            RuleName.DATABASE_UNREADABLE,
            RuleName.DATABASE_ROW_ODD,
            RuleName.ROW_DIFFERS,
            RuleName.RECORD_WITHOUT_ROW,
            RuleName.ROW_WITHOUT_RECORD,
            RuleName.QUEUE_BOUND,
            RuleName.DISPATCH_MARK,
            RuleName.ROW_TIME,
        ),
        _DATABASE,
    ),
}
"""By rule id. What is not here has the planner's own words."""
