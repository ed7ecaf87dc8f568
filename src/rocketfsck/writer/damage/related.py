"""Rules that damage of one kind may break besides those that it must: consequences, by what was lost.

A store that lost a record has units and entries that point to it, a queue whose numbers jump, perhaps a
checkpoint that names it. These sets say what of a report is explained by the damage.
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName


def rules(*names: RuleName) -> frozenset[RuleName]:
    """A set of rules."""
    return frozenset(names)


REFERENCES = rules(RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.ENTRY_OF_DAMAGED_RECORD)
"""Units and entries that point into damaged bytes."""

RECORD_LOST = REFERENCES | rules(
    RuleName.PREPARED_RECORD_MISSING,
    RuleName.QUEUE_OFFSET_GAP,
    RuleName.CHECKPOINT_AHEAD,
    RuleName.LOGICS_OFFSET,
    RuleName.CONFIRM_OFFSET,
    RuleName.EPOCH_BOUNDARY,
)
"""A record in the middle of the log is no longer a record."""

TAIL_LOST = RECORD_LOST | rules(
    RuleName.UNIT_BEYOND_LOG,
    RuleName.ENTRY_BEYOND_LOG,
    RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.DELAY_OFFSET_RANGE,
    RuleName.LOGICS_OFFSET_AHEAD,
    RuleName.CONFIRM_OFFSET_AHEAD,
    RuleName.EPOCH_RANGE,
)
"""The log ends earlier than it did."""

RECORD_CHANGED = rules(RuleName.RECORD_PROPERTY_CRC)
"""Any byte of a record's header: covered by the property CRC, where there is one."""

KEYS_CHANGED = rules(
    RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.ENTRY_KEY, RuleName.ENTRY_DUPLICATE
)
"""A record has other keys than its entries."""

MOVED = rules(
    RuleName.QUEUE_OFFSET_REPEATED,
    RuleName.QUEUE_OFFSET_GAP,
    RuleName.RECORD_WITHOUT_UNIT,
    RuleName.QUEUE_MISSING,
    RuleName.QUEUE_DELETED,
    RuleName.UNIT_GHOST,
    RuleName.UNIT_SHIFTED,
    RuleName.UNIT_OF_DAMAGED_RECORD,
    RuleName.QUEUE_EXPIRED,
    RuleName.GHOST_QUEUE,
)
"""A record says that it belongs to another queue or has another place in it."""

UNITS_LOST = rules(
    RuleName.RECORD_WITHOUT_UNIT,
    RuleName.CONSUMER_OFFSET_AHEAD,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.DELAY_OFFSET_RANGE,
    RuleName.TIMER_CHECK_RANGE,
)
"""Units are gone."""

QUEUE_LOST = rules(
    RuleName.QUEUE_MISSING,
    RuleName.CONSUMER_OFFSET_AHEAD,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.DELAY_OFFSET_RANGE,
    RuleName.TIMER_CHECK_RANGE,
    RuleName.QUEUES_OF_ANOTHER_LOG,
    RuleName.QUEUE_EXTENSION_ORPHAN,
)
"""A whole queue is gone."""

SEGMENT_LOST = rules(
    RuleName.UNIT_IN_MISSING_SEGMENT,
    RuleName.ENTRY_IN_MISSING_SEGMENT,
    RuleName.SEGMENT_GAP,
    RuleName.PREPARED_RECORD_MISSING,
    RuleName.QUEUE_OFFSET_GAP,
    RuleName.CHECKPOINT_AHEAD,
    RuleName.LOGICS_OFFSET,
    RuleName.LOGICS_OFFSET_AHEAD,
    RuleName.CONFIRM_OFFSET,
    RuleName.EPOCH_BOUNDARY,
    RuleName.UNIT_GHOST,
    RuleName.ENTRY_DANGLING,
    RuleName.GHOST_QUEUE,
    RuleName.QUEUE_MISSING,
)
"""A commit log file is gone, or not where it was."""

ENTRIES_LOST = rules(
    RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.INDEX_NOT_FULL, RuleName.CHECKPOINT_INDEX_TIME
)
"""Index entries are gone."""

CHAINS = rules(
    RuleName.INDEX_SLOT_OUT_OF_RANGE,
    RuleName.INDEX_SLOT_HEAD,
    RuleName.INDEX_CHAIN_SELF_LOOP,
    RuleName.INDEX_CHAIN_CYCLE,
    RuleName.INDEX_CHAIN_NOT_DECREASING,
    RuleName.INDEX_CHAIN_OUT_OF_RANGE,
    RuleName.INDEX_CHAIN_CROSS_LINK,
    RuleName.INDEX_CHAIN_SKIPS,
    RuleName.INDEX_ENTRY_ORPHAN,
)
"""A link or a slot of an index file was changed."""

ANY_LOG = (
    TAIL_LOST
    | RECORD_CHANGED
    | KEYS_CHANGED
    | MOVED
    | rules(
        RuleName.LOG_BOUNDARY_LOST,
        RuleName.LOG_TORN_TAIL,
        RuleName.RECORD_MALFORMED,
        RuleName.RECORD_BODY_CRC,
        RuleName.RECORD_PHYSICAL_OFFSET,
        RuleName.RECORD_SYS_FLAG,
        RuleName.RECORD_HOST_PORT,
        RuleName.RECORD_NEGATIVE_FIELD,
        RuleName.RECORD_TOPIC,
        RuleName.RECORD_PROPERTIES_NUL,
        RuleName.RECORD_DELAY_LEVEL,
        RuleName.RECORD_INNER_BATCH,
        RuleName.RECORD_END_OF_FILE,
        RuleName.RECORD_COMPRESSED_BODY,
        RuleName.BLANK_SIZE,
        RuleName.BLANK_MISSING,
        RuleName.BLANK_TOO_EARLY,
        RuleName.STALE_TAIL,
        RuleName.BYTES_BEHIND_END,
        RuleName.LOG_NO_RECORDS,
        RuleName.RECORD_WITHOUT_TARGET,
        RuleName.UNIT_SIZE,
        RuleName.UNIT_TAGS_CODE,
        RuleName.EXT_UNIT_CONTENT,
        RuleName.MULTI_DISPATCH_LISTS,
        RuleName.BATCH_UNIT_CONTENT,
        RuleName.ENTRY_DANGLING,
        RuleName.ENTRY_TIME,
        RuleName.INDEX_HEADER_RANGE,
        RuleName.SEGMENTS_NEVER_FILLED,
        RuleName.SEGMENT_ZERO_INSIDE,
        RuleName.CHECKPOINT_FUTURE,
        RuleName.CHECKPOINT_BEHIND,
        RuleName.CHECKPOINT_ZERO,
    )
)
"""Bytes of the commit log were changed, whichever."""

ANY_QUEUE = (
    UNITS_LOST
    | QUEUE_LOST
    | rules(
        RuleName.UNIT_HOLE,
        RuleName.UNIT_ORDER,
        RuleName.PRE_BLANK_MISPLACED,
        RuleName.UNIT_STALE,
        RuleName.UNIT_INVALID,
        RuleName.UNIT_PARTIAL,
        RuleName.QUEUE_LAST_FILE_EMPTY,
        RuleName.EXT_ADDRESS_DANGLING,
        RuleName.EXT_UNIT_MALFORMED,
        RuleName.BATCH_UNIT_BASE,
        RuleName.BATCH_UNIT_RESERVED,
        RuleName.UNIT_BEYOND_LOG,
        RuleName.UNIT_GHOST,
        RuleName.UNIT_SHIFTED,
        RuleName.UNIT_SIZE,
        RuleName.UNIT_TAGS_CODE,
        RuleName.UNIT_OF_DAMAGED_RECORD,
        RuleName.UNIT_IN_MISSING_SEGMENT,
        RuleName.EXT_UNIT_CONTENT,
        RuleName.BATCH_UNIT_CONTENT,
        RuleName.GHOST_QUEUE,
    )
)
"""Bytes of a consume queue were changed, whichever."""

ANY_INDEX = (
    CHAINS
    | ENTRIES_LOST
    | rules(
        RuleName.INDEX_LENGTH,
        RuleName.INDEX_HEADER_COUNT,
        RuleName.INDEX_SLOT_COUNT,
        RuleName.INDEX_SLOT_COUNT_KIND,
        RuleName.INDEX_HEADER_RANGE,
        RuleName.INDEX_ENTRY_HASH,
        RuleName.INDEX_ENTRY_TIME_NEGATIVE,
        RuleName.INDEX_ENTRY_ORDER,
        RuleName.INDEX_ENTRY_BEHIND_COUNT,
        RuleName.INDEX_ENTRY_ZERO,
        RuleName.INDEX_EMPTY,
        RuleName.INDEX_EMPTY_MANY,
        RuleName.INDEX_FILE_ORDER,
        RuleName.INDEX_FIRST_TIME_WRONG,
        RuleName.INDEX_CHAINS_NOT_WALKED,
    )
    | rules(
        RuleName.ENTRY_BEYOND_LOG,
        RuleName.ENTRY_DANGLING,
        RuleName.ENTRY_KEY,
        RuleName.ENTRY_DUPLICATE,
        RuleName.ENTRY_TIME,
        RuleName.INDEX_AHEAD_OF_LOG,
        RuleName.ENTRY_OF_DAMAGED_RECORD,
        RuleName.ENTRY_IN_MISSING_SEGMENT,
        RuleName.INDEX_FILE_DOOMED,
    )
)
"""Bytes of an index file were changed, whichever."""
