"""Lines about consume queues, their extensions, batch queues and the index."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.areas import Family, Issue

FAMILIES = (
    Family(
        "queue-order",
        "damage",
        "The unit to be written belongs to another place of the queue than its end. Diff above 0: units "
        "before it are missing. The broker appends it all the same, so from here on the units' places "
        "differ from the messages' queue offsets, and consumers commit offsets that do not fit. No broker "
        "corrects this later.",
        "Check names the queues; `fix` puts each message at its own queue offset.",
        begins=("[BUG]logic queue order maybe wrong",),
        rules=(RuleName.UNIT_SHIFTED, RuleName.UNIT_HOLE, RuleName.RECORD_WITHOUT_UNIT),
        classes=("Q3",),
        issues=(
            Issue(2593),
            Issue(7355, "5.2.0"),
            Issue(8693),
            Issue(6570),
            Issue(1391),
            Issue(1397),
        ),
    ),
    Family(
        "queue-repeated",
        "normal",
        "The broker dispatches records again that already have units, as after an unclean stop. The queue "
        "skips them.",
        "Nothing to do after a start. On a broker that runs for long, check the queue.",
        begins=(
            "Build consume queue repeatedly",
            "Maybe try to build consume queue repeatedly",
            "Build batch consume queue repeatedly",
            "Reput behind {",
        ),
        rules=(RuleName.QUEUE_OFFSET_REPEATED, RuleName.UNIT_SHIFTED),
        classes=("Q1",),
        issues=(Issue(7355),),
    ),
    Family(
        "queue-not-writable",
        "damage",
        "A unit could not be written 30 times, so the broker marks the store as not writable until it is "
        "started again: mostly the disk is full.",
        "Make room and start the broker again. The log has the messages; check says which have no unit.",
        begins=(
            "[BUG]consume queue can not write",
            "[NOTIFYME]batch consume queue can not write",
            "[BUG]put commit log position info",
            "[NOTIFYME]put commit log position info",
        ),
        command="check STORE",
        rules=(RuleName.RECORD_WITHOUT_UNIT,),
        classes=("C9", "Q1"),
        issues=(Issue(2398),),
    ),
    Family(
        "queue-correct",
        "notice",
        "Units of a queue lead to log files that were deleted, or the queue's bounds contradict each other."
        " The broker searches for the smallest queue offset again.",
        "Normal after log files were deleted at once. If the same queue comes again and again, check it.",
        begins=("CorrectLogicOffsetService.needCorrect", "CorrectLogicOffsetService"),
        command="query offsets STORE",
        rules=(RuleName.QUEUE_EXPIRED, RuleName.UNITS_EXPIRED),
        classes=("Q5",),
        issues=(Issue(8753), Issue(10417)),
    ),
    Family(
        "queue-hanged-file",
        "notice",
        "The last unit of a queue's file cannot be read, so the broker deletes that file as expired.",
        "Check the queue: the messages of the file's units may still be in the log.",
        begins=(
            "Found a hanged consume queue file",
            "this being not executed forever",
            "[Bug][InconsistentState] ConsumeQueue file",
            "[Bug] Failed to scan consume queue entries",
            "Correct min offset found null cq file",
        ),
        rules=(RuleName.UNIT_INVALID, RuleName.UNIT_PARTIAL, RuleName.RECORD_WITHOUT_UNIT),
        classes=("Q6", "Q5"),
    ),
    Family(
        "queue-new",
        "normal",
        "A consume queue has no unit yet while the broker looks for expired ones.",
        "Nothing to do.",
        begins=("maybe ConsumeQueue was created just now",),
    ),
    Family(
        "queue-deleted",
        "normal",
        "A consume queue was removed: its topic was deleted, or all its messages have expired.",
        "Nothing to do, unless nobody deleted the topic: check says whether messages of it are still in the"
        " log.",
        begins=("cleanExpiredConsumerQueue", "cleanUnusedTopic", "cleanUnusedLmqTopic", "DeleteTopic: "),
        rules=(RuleName.QUEUE_MISSING, RuleName.GHOST_QUEUE),
        classes=("Q7", "Q8"),
        issues=(Issue(1852), Issue(2133)),
    ),
    Family(
        "extension",
        "notice",
        "A unit of the queue's extension (bit maps of filters) could not be read or written. The broker "
        "takes the tags alone, so consumers with SQL filters get messages that they filter themselves.",
        "Check says which extension is damaged; bit maps cannot be computed from the log.",
        begins=(
            "[BUG] can't find consume queue extend",
            "[BUG] Consume queue extend unit",
            "[BUG] address {",
            "Save consume queue extend",
            "Create mapped file when save consume queue extend",
            "Size of cq ext unit",
            "Capacity of ext is maximum",
        ),
        rules=(RuleName.EXT_ADDRESS_DANGLING, RuleName.EXT_UNIT_MALFORMED, RuleName.EXT_UNIT_ORPHAN),
        classes=("Q9",),
        issues=(Issue(10755), Issue(10756)),
    ),
    Family(
        "light-queues",
        "notice",
        "The properties of a message name another number of light queues (LMQ) than of their offsets, or "
        "they do not fit. The message gets no unit in these queues.",
        "Check names the messages.",
        begins=(
            "[bug] queues.length",
            "[bug] no multiQueueOffset",
            "[bug] num is not equal",
            "rebuild msgInner",
        ),
        rules=(RuleName.MULTI_DISPATCH_LISTS, RuleName.LIGHT_LISTS_UNUSED),
        classes=("Q3",),
        issues=(Issue(8693), Issue(7511)),
    ),
    Family(
        "batch-queue-kind",
        "damage",
        "A message is a batch, but the topic's queue is not one for batches, or the other way round.",
        "Compare the attribute queue.type of the topic with its directory: check does.",
        begins=(
            "[BUG]The message is an inner batch",
            "[BUG]The message had property",
            "[NOTIFYME]unexpected dispatch",
        ),
        rules=(RuleName.QUEUE_KIND_ATTRIBUTE, RuleName.QUEUE_KIND_TWICE, RuleName.RECORD_INNER_BATCH),
        classes=("Q10",),
        issues=(Issue(5077),),
    ),
    Family(
        "batch-queue-cache",
        "normal",
        "The broker has no cached bounds of a file of a batch queue and reads the file.",
        "Nothing to do.",
        begins=(
            "cache is not working on BCQ",
            "Failed caching offset and time on BCQ",
            "Unknown boundary type",
        ),
    ),
    Family(
        "index-full",
        "normal",
        "An index file has all its entries, and the broker makes the next one.",
        "Nothing to do.",
        begins=("Over index file capacity", "Index file [{fileName}] is full", "Tried to create index file"),
        rules=(RuleName.INDEX_NOT_FULL,),
    ),
    Family(
        "index-stopped",
        "damage",
        "The broker could not make or write an index file, so messages from here on have no index entries: "
        "queries by key do not find them. Consumers are not affected.",
        "Look for a full disk. Then `rebuild index` makes the index from the log.",
        begins=(
            "build index error, stop building index",
            "Mark index file cannot build flag",
            "putKey error commitlog",
            "putKey exception",
            "getLastIndexFile exception",
        ),
        command="rebuild index STORE --into DIR",
        rules=(
            RuleName.RECORD_UNINDEXED,
            RuleName.KEY_UNINDEXED,
            RuleName.INDEX_EMPTY,
            RuleName.INDEX_EMPTY_MANY,
        ),
        classes=("I1", "I4", "C9"),
        issues=(Issue(7539), Issue(8041)),
    ),
    Family(
        "index-load",
        "damage",
        "An index file could not be loaded, and the start fails. A file whose name is not a number belongs "
        "elsewhere.",
        "Check the index; `rebuild index` makes it again from the log.",
        begins=("load file {file} error",),
        owners=("IndexService",),
        rules=(RuleName.INDEX_LENGTH, RuleName.INDEX_FOREIGN_FILE, RuleName.INDEX_NAME),
        classes=("I10", "C6"),
    ),
    Family(
        "index-query",
        "notice",
        "A query by key failed while the broker read an index file.",
        "Check the index: a broken chain of entries stops queries.",
        begins=(
            "selectPhyOffset exception",
            "queryMsg exception",
            "queryMsg queryOffset exception",
            "queryOffset exception",
            "Failed to release the lock",
        ),
        rules=(RuleName.INDEX_CHAIN_OUT_OF_RANGE, RuleName.INDEX_CHAIN_CYCLE, RuleName.INDEX_CHAIN_SELF_LOOP),
        classes=("I3",),
        issues=(Issue(8018),),
    ),
    Family(
        "expire-files",
        "normal",
        "The broker deletes files of the log or of queues because of their age, or of a full disk.",
        "Nothing to do. `simulate` and `info` say what retention will delete next.",
        begins=(
            "begin to delete before",
            "physic min",
            "Delete CommitLog {",
            "executeDeleteFilesManually",
            "Try to delete the last old commitlog",
            "on recover, destroy a logic mapped file",
        ),
        command="info STORE",
    ),
    Family(
        "expire-failed",
        "notice",
        "Files that are due to be deleted could not be deleted. The disk may fill up.",
        "Look at permissions, and at readers that hold the files open.",
        begins=(
            "deleteExpiredFile",
            "destroy exception",
            "disk space will be full soon, but delete file failed",
        ),
        command="info STORE",
        classes=("C9",),
    ),
)
