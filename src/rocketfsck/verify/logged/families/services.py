"""Lines of what has files of its own: timers, compaction, RocksDB, tiered storage, transactions.

Lines about free space, config files and what is written to disk besides messages.

Lines of replication: master and slave, controller mode, DLedger.
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.areas import Family, Issue

REPLICA_FAMILIES = (
    Family(
        "slave-position",
        "damage",
        "The master sends from another offset than the slave's log ends at. The slave closes the connection"
        " and tries again, without end if the two logs do not join: the slave ends where the master has no "
        "record, or the master has deleted that part.",
        "Compare the two stores: `compare` says where they part and which one is ahead.",
        begins=("master pushed offset not equal the max phy offset in slave",),
        command="compare STORE OTHER_STORE",
        issues=(Issue(3388), Issue(323)),
    ),
    Family(
        "slave-ahead",
        "damage",
        "A slave reports a larger offset than the master's log has: the master lost its tail, or somebody "
        "else connected to the port. The master closes the connection.",
        "Compare the stores before messages are written to the master: the slave may have messages that the"
        " master lost.",
        begins=("slave[{",),
        command="compare STORE OTHER_STORE",
        issues=(Issue(3015, "4.9.4 at the latest"), Issue(1155)),
    ),
    Family(
        "replica-timeout",
        "notice",
        "No slave confirmed a message in time. The message is in this store's log, and the producer saw a "
        "failure.",
        "Look at the slave and the network; nothing is wrong with this store.",
        begins=("transfer mess", "do sync transfer other node"),
        command="compare STORE OTHER_STORE",
    ),
    Family(
        "replica-connection",
        "normal",
        "The connection between master and slave was closed, refused or lost. The slave connects again by "
        "itself.",
        "Nothing to do for the store. If the line does not end, look at the network and at the other broker.",
        begins=(
            "HAClient",
            "AutoRecoverHAClient",
            "AutoSwitchHAClient, ",
            "AutoSwitchHAClient connect",
            "AutoSwitchHAClient report",
            "ha housekeeping",
            "read socket[",
            "processReadEvent",
            "closeMaster exception",
            "CloseMaster exception",
            "Close the selector",
            "new HAConnection exception",
            "Unexpected ops in select",
            "AcceptSocketService shutdown",
            "Exception: ha master write",
            "Trigger HA flow control",
            "Wait HA connection establish",
            "Check connection address",
        ),
        command="",
    ),
    Family(
        "epoch-no-common-point",
        "damage",
        "The epochs of master and slave have no common point, or the slave could not cut its log to it. The"
        " slave does not follow the master.",
        "Compare the stores. A slave without messages of its own may be copied again from the master.",
        begins=(
            "Failed to find a consistent point between masterEpoch",
            "Failed to truncate slave log to",
            "AutoSwitchHAClient truncate log failed",
        ),
        command="compare STORE OTHER_STORE",
        rules=(RuleName.EPOCH_RANGE, RuleName.EPOCH_BOUNDARY),
        classes=("H3",),
        issues=(Issue(9942), Issue(6505)),
    ),
    Family(
        "epoch-file",
        "damage",
        "The file of epochs (epochFileCheckpoint) could not be read, written, or does not rise. In "
        "controller mode the broker does not join its group.",
        "Check says what is wrong in the file.",
        begins=(
            "Error happen when init epoch entries",
            "Error happen when flush epochEntries",
            "The appending entry's lastEpoch",
            "Can't find a bigger epochEntry",
            "Failed to find an epochEntry",
            "Failed to find epochEntry",
            "[BUG]Can't find currentTransferEpoch",
        ),
        rules=(RuleName.EPOCH_DAMAGED, RuleName.EPOCH_ORDER, RuleName.EPOCH_RANGE),
        classes=("H3",),
        issues=(Issue(6586), Issue(9689)),
    ),
    Family(
        "role-change",
        "notice",
        "Changing the role of this broker failed or was refused, because its epoch is older.",
        "See the controller's log. Compare the replicas before one of them is made master by hand.",
        begins=("newMasterEpoch", "Error happen when change ha to slave", "Slave {syncId} is still in"),
        command="compare STORE OTHER_STORE",
        classes=("H3",),
    ),
    Family(
        "dledger-append",
        "notice",
        "DLedger did not take a message: no leader, too many waiting requests, or a full disk. The producer"
        " saw a "
        "failure.",
        "Look at the other nodes; check this node's store if the line does not end.",
        begins=("HandleAppend return false", "Put message error"),
        rules=(RuleName.DLEDGER_ENTRY_PLACE,),
        classes=("H4",),
    ),
    Family(
        "dledger-old-log",
        "normal",
        "A broker that runs DLedger found a commit log of the time before, and reads on from its end.",
        "Nothing to do.",
        begins=(
            "Recover old commitlog",
            "Will set the initial commitlog offset",
            "Should not set confirm offset",
        ),
    ),
)


DISK_FAMILIES = (
    Family(
        "disk-full",
        "damage",
        "The disk is fuller than the limit, so the broker deletes the oldest files before their time, or "
        "refuses messages. After the disk has room, older versions stay not writable until a restart.",
        "Make room outside the store, or raise diskMaxUsedSpaceRatio. Check before the next start: the "
        "newest files may be empty.",
        begins=(
            "physic disk maybe full soon",
            "physic disk of commitLog maybe full soon",
            "logics disk maybe full soon",
            "commitLog disk maybe full soon",
            "consumeQueue disk maybe full soon",
            "Logical disk usage",
        ),
        command="info STORE",
        rules=(RuleName.EMPTY_LAST_SEGMENT, RuleName.SEGMENTS_NEVER_FILLED),
        classes=("C9",),
        issues=(Issue(2398), Issue(1367)),
    ),
    Family(
        "disk-ok",
        "normal",
        "The broker measured the disk and found enough room.",
        "Nothing to do.",
        begins=("physic disk space", "physic disk of commitLog used", "logics disk space OK"),
        command="info STORE",
    ),
    Family(
        "config-fallback",
        "damage",
        "A config file could not be read, so the broker takes its .bak, which is one save older. If the "
        ".bak fails too, the start fails, or the config begins empty.",
        "Check says what is readable in both, and what the older content would change; `fix` restores from "
        "what is "
        "left.",
        begins=("load {fileName} failed, and try to load backup file",),
        rules=(
            RuleName.CONFIG_LOST,
            RuleName.CONFIG_FALLS_BACK,
            RuleName.CONFIG_TRAILING_BYTES,
            RuleName.CONFIG_BACKUP_DAMAGED,
        ),
        classes=("K5",),
        issues=(Issue(7729), Issue(8395), Issue(6096), Issue(1498), Issue(9328)),
    ),
    Family(
        "config-lost",
        "damage",
        "Neither a config file nor its .bak could be read. The broker does not start, or starts without "
        "topics, offsets or subscriptions.",
        "Do not start the broker: `fix` rebuilds topics from queues and the log, and says what is lost.",
        begins=("load {fileName} Failed", "load {fileName} failed, and delete invalid file"),
        owners=("ConfigManager",),
        rules=(RuleName.CONFIG_LOST, RuleName.TOPICS_GONE, RuleName.CONSUMER_OFFSETS_GONE),
        classes=("K5",),
        issues=(Issue(9705), Issue(3401)),
    ),
    Family(
        "config-write",
        "damage",
        "A config file could not be saved. After a crash the broker begins with the older content.",
        "Look for a full disk or missing permissions.",
        begins=(
            "persist file {fileName} exception",
            "Failed to persist",
            "BrokerController: failed to persist config file",
            "schedule persist",
        ),
        rules=(RuleName.CONFIG_UNFINISHED_WRITE, RuleName.CONFIG_BACKUP_NEWER),
        classes=("K5", "C9"),
    ),
    Family(
        "config-loaded",
        "normal",
        "A config file was read.",
        "Nothing to do.",
        begins=("load {fileName} OK", "load exist "),
        command="info STORE",
    ),
    Family(
        "offset-less",
        "notice",
        "A consumer committed a smaller offset than the store has for its group: an offset that was reset, "
        "or two consumers of one queue.",
        "See the group's position against the queue.",
        begins=("[NOTIFYME]update consumer offset less than store",),
        command="query offsets STORE",
        rules=(RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSET_BEHIND),
        classes=("K6",),
        issues=(Issue(1440),),
    ),
    Family(
        "offset-removed",
        "normal",
        "The broker removed the offsets of a group or topic that was deleted or has no subscription.",
        "Nothing to do, unless nobody deleted it: the group begins again by its own setting.",
        begins=("remove topic offset", "clean group offset", "Clean group's offset", "Clean topic's offset"),
        command="query offsets STORE",
        rules=(RuleName.CONSUMER_OFFSETS_GONE, RuleName.CONSUMER_OFFSET_LOOSE),
        classes=("K6",),
    ),
)


SERVICE_FAMILIES = (
    Family(
        "timer-message-missing",
        "damage",
        "A timer leads to a place of the log where its message cannot be read: the message has expired, or "
        "the log was cut. The timer tries again, and timers after it may wait.",
        "See what is at that offset, and which messages still wait.",
        begins=("Fail to read msg from commit",),
        command="query timers STORE",
        rules=(RuleName.TIMER_UNIT_RECORD, RuleName.TIMER_UNIT_CONTENT, RuleName.TIMER_MESSAGE_EXPIRED),
        classes=("H5",),
        issues=(Issue(10668), Issue(7437)),
    ),
    Family(
        "timer-position",
        "notice",
        "The timers' position in their queue is outside the queue: the queue was cut, or its messages "
        "expired. The broker corrects the position.",
        "Check says which timers were not scheduled.",
        begins=(
            "Timer currQueueOffset",
            "Timer recheck because of",
            "scanSysTimerTopic readOffset",
            "reviseQueueOffset",
        ),
        rules=(RuleName.TIMER_NOT_SCHEDULED, RuleName.TIMER_CHECK_RANGE),
        classes=("H5",),
        issues=(Issue(7480, "5.3.3 at the latest"),),
    ),
    Family(
        "timer-log",
        "damage",
        "The timer log or wheel could not be read, written or recovered.",
        "Check the timer files. Messages themselves are in the commit log.",
        begins=(
            "Recover timerlog error",
            "Recover timerLog error",
            "Error in dequeue_read_timerlog",
            "Unknown error in dequeue",
            "dequeue time:",
            "Append blank error for timer log",
            "Append error for timer log",
            "Create mapped file1 error for timer log",
            "create mapped file2 error for timer log",
            "Error in cleaning timer",
            "Found error data in [",
            "RuntimeException: Timer wheel length",
            "Shutdown error in timer",
        ),
        rules=(
            RuleName.TIMER_WHEEL_LENGTH,
            RuleName.TIMER_SLOT_POSITION,
            RuleName.TIMER_LOG_GAP,
            RuleName.TIMER_UNIT_LINK,
        ),
        classes=("H5",),
        issues=(Issue(9735),),
    ),
    Family(
        "timer-metrics",
        "notice",
        "Counting the timers by topic failed. Counts that tools show are wrong; no timer is lost.",
        "Nothing to do for the store. A blank record at the end of a timer log file is legal.",
        begins=("[CheckAndReviseMetrics]", "error in adding metric", "removeTimingCount error"),
        command="query timers STORE",
        issues=(Issue(9947),),
    ),
    Family(
        "compaction-mismatch",
        "damage",
        "The log and the queue of a compacted topic do not have the same files, so the broker does not load"
        " them.",
        "Check says which file is alone. The commit log may still have the messages.",
        begins=(
            "{topic}:{queueId} compactionLog mismatch",
            "RuntimeException: consumeQueue file mismatch",
            "RuntimeException: log file mismatch",
            "load compactionLog {",
            "Exception: load compactionLog",
        ),
        rules=(RuleName.COMPACTION_FILE_ALONE, RuleName.COMPACTION_FILE_LENGTH, RuleName.COMPACTION_POSITION),
    ),
    Family(
        "compaction-leftover",
        "notice",
        "A compaction did not finish, and left files of it behind, or could not move them in place.",
        "Check says what is left; the broker compacts again.",
        begins=(
            "do compaction exception",
            "move consume queue file",
            "move file {",
            "directory {storePath} with",
            "IOException: directory {storePath} not empty",
            "roll log and cq exception",
        ),
        rules=(RuleName.COMPACTION_LEFTOVER,),
    ),
    Family(
        "rocksdb-not-open",
        "damage",
        "A RocksDB database of the store could not be opened or is closed.",
        "Check reads the database without the broker and says what is damaged. Queues and index in RocksDB "
        "can be built from the log: `rebuild`.",
        begins=(
            "hold rocksdb Failed",
            "IllegalStateException: rocksDB",
            "RocksDBException: open rocksdb null",
            "reload rocksdb Failed",
            "Exception: reload rocksdb Error",
            "scheduleReloadRocksdb",
            "postLoad Failed",
        ),
        rules=(RuleName.DATABASE_FILE_MISSING, RuleName.DATABASE_FILE_DAMAGED, RuleName.DATABASE_UNREADABLE),
    ),
    Family(
        "rocksdb-rows",
        "damage",
        "Reading or writing a RocksDB database failed, with RocksDB's own status in the line.",
        "A status of corruption needs a check; one of no space needs room on the disk.",
        begins=(
            "batchPut Failed",
            "delete Failed. {dbPath}",
            "flush Failed",
            "get Failed. {dbPath}",
            "manualCompaction Failed",
            "multiGet Failed",
            "put Failed. {dbPath}",
            "rangeDelete Failed",
            "[BUG] put CQ Failed",
            "RocksDBException: put CQ Failed",
            "putMessagePosition0",
            "Failed to flush WAL",
        ),
        rules=(RuleName.DATABASE_FILE_DAMAGED, RuleName.DATABASE_LOG_CUT, RuleName.ROWS_NOT_FLUSHED),
    ),
    Family(
        "rocksdb-queue-behind",
        "notice",
        "Queues in RocksDB and queues in files are at different offsets, or one kind was never started. The"
        " broker refuses to read from the one that is behind.",
        "Check compares both with the log.",
        begins=(
            "CombineConsumeQueueStore",
            "IllegalArgumentException: CombineConsumeQueue",
            "IllegalArgumentException: {simpleName}",
        ),
        rules=(RuleName.ROW_DIFFERS, RuleName.RECORD_WITHOUT_ROW, RuleName.QUEUE_BOUND),
        issues=(Issue(9241),),
    ),
    Family(
        "tiered-size",
        "damage",
        "A segment in tiered storage has another size than its metadata says.",
        "Check the store with its tiered part.",
        begins=(
            "FlatAppendFile last file size not correct",
            "FileSegment correct position error",
            "Get file size error after commit",
            "FileSegment commit exception",
        ),
        rules=(RuleName.TIERED_SEGMENT_SHORT, RuleName.TIERED_SEGMENT_LONG),
    ),
    Family(
        "delay-level",
        "notice",
        "The setting messageDelayLevel cannot be read. Delayed messages are not delivered.",
        "Correct the setting.",
        begins=("parse message delay level failed", "parseDelayLevel exception"),
        rules=(RuleName.DELAY_LEVEL_UNKNOWN,),
        command="query offsets STORE --topic SCHEDULE_TOPIC_XXXX",
    ),
)

FAMILIES = (*DISK_FAMILIES, *REPLICA_FAMILIES, *SERVICE_FAMILIES)
