"""Rules ST: names, lengths, strays and segments (reference 1.1 to 1.4, 9.1)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.SEGMENT_LENGTH,
        severity=Severity.ERROR,
        template="{file} has {size} bytes, not {expected.size}: a broker {effect}",
        why=(
            "Every file of a mapped file queue has the configured length. From 4.5.1 on (4.9.2 excepted) a "
            "broker with any other file in such a directory refuses to start; older ones silently ignore "
            "that file and all that sort after it."
        ),
        strictness="strict",
        level="quick",
        repair="resize-segment",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.EMPTY_LAST_SEGMENT,
        severity=Severity.WARNING,
        template="{file} is empty and the last of its directory: a broker {effect}",
        why=(
            "A process that dies between creating a segment and giving it its length leaves it empty. From "
            "5.1.3 on a broker deletes it at the next start; earlier versions stop at it."
        ),
        strictness="dialect",
        level="quick",
        repair="remove-empty-segment",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.FOREIGN_FILE,
        severity=Severity.ERROR,
        template="{file} ({size} bytes) does not belong into {area}: a broker {effect}",
        why=(
            "Brokers take whatever stands in a segment directory for a segment. An editor's swap file, a "
            "copy or a directory keeps the broker from starting, or (up to 4.4.0) hides every segment that "
            "sorts after it."
        ),
        strictness="dialect",
        level="quick",
        repair="move-stray",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.FOREIGN_FILE_HARMLESS,
        severity=Severity.INFO,
        template="{file} does not belong into {area}; a broker {effect}",
        why="It is not part of the store. Another broker version may stop at it.",
        strictness="dialect",
        level="quick",
        repair="move-stray",
        reference="1.2",
    ),
    Rule(
        id=RuleName.FOREIGN_NUMBER,
        severity=Severity.ERROR,
        template="{file} is loaded as the segment at {offset}: its name is a number, but not 20 digits",
        why=(
            "Long.parseLong reads it, and its length is right, so the broker loads it as a segment in a "
            "place where its name sorts, not where its number belongs."
        ),
        strictness="strict",
        level="quick",
        repair="move-stray",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_GAP,
        severity=Severity.ERROR,
        template=(
            "{missing_size} bytes of {area} are missing before {file}: segments {missing_start} to "
            "{missing_end}"
        ),
        why=(
            "Segments follow each other without gaps; they are only removed from the front. Brokers log a "
            "gap and go on: what was in it is lost, and recovery walks on in the wrong file."
        ),
        strictness="strict",
        level="quick",
        repair="fence-gap",
        reference="1.2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.SEGMENT_OVERLAP,
        severity=Severity.ERROR,
        template=(
            "{file} begins at {start_offset}, inside the segment before it, which ends at "
            "{expected.start_offset}"
        ),
        why=(
            "Two segments claim the same offsets. Their lengths differ, or one is from another store or "
            "from a time when the segments had another size."
        ),
        strictness="strict",
        level="quick",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_TWICE,
        severity=Severity.ERROR,
        template="{file} has the name of {twin}; both are loaded, {zero} of the two is all zeros",
        why=(
            "Brokers merge the files of all commit log paths by name and load both. Pre-allocation on "
            "another disk once one is full leaves such an all-zero twin."
        ),
        strictness="strict",
        level="quick",
        repair="move-zero-twin",
        reference="1.3",
        fault_class="C7",
    ),
    Rule(
        id=RuleName.SEGMENT_ALIGNMENT,
        severity=Severity.WARNING,
        template=(
            "{file} begins at {start_offset}, which is not a multiple of the segment size {expected.multiple}"
        ),
        why=(
            "Names are multiples of the segment size as long as that never changed. Brokers find the "
            "segment of an offset by division and fall back to a search."
        ),
        strictness="strict",
        level="quick",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_UNIT_ALIGNMENT,
        severity=Severity.ERROR,
        template="{file} begins at {start_offset}, in the middle of a unit of {expected.multiple} bytes",
        why=(
            "A queue's segment is named by its byte offset; one that is no multiple of the unit size shifts"
            " every unit in it: the broker reads garbage."
        ),
        strictness="strict",
        level="quick",
        repair="rebuild-queue",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_PREALLOCATED,
        severity=Severity.INFO,
        template="{file} is all zeros: allocated ahead",
        why=(
            "A broker creates the next one or two commit log files before it needs them. A clean stop "
            "removes what was not used."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.2",
    ),
    Rule(
        id=RuleName.SEGMENTS_NEVER_FILLED,
        severity=Severity.WARNING,
        template=(
            "{zero_count} commit log files from {file} on are all zeros; brokers allocate at most 2 ahead"
        ),
        why=(
            "Files that were created but never filled: the disk was full or mapping failed, or the data "
            "that was in them never reached the disk."
        ),
        strictness="heuristic",
        level="quick",
        repair="remove-empty-segment",
        reference="1.2",
        fault_class="C9",
    ),
    Rule(
        id=RuleName.SEGMENT_ZERO_INSIDE,
        severity=Severity.ERROR,
        template="{file} is all zeros although later segments hold data",
        why=(
            "A segment is filled before the next one is begun, so its records are lost: the disk lost "
            "writes or the file was replaced. A broker that recovers over it cuts the log here and deletes "
            "all later segments."
        ),
        strictness="strict",
        level="quick",
        repair="salvage-log",
        reference="1.2",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.COMMITLOG_MISSING,
        severity=Severity.ERROR,
        template=(
            "there is no commit log but {queue_count} consume queues with {unit_size} bytes: a broker "
            "{effect}"
        ),
        why=(
            "A start with an empty commit log destroys every consume queue (since 4.5.1 always, before that"
            " after an unclean stop). A disk that is not mounted or a wrong storePathCommitLog is enough. "
            "Up to 4.9.3 the commit log's default place does not follow storePathRootDir."
        ),
        strictness="dialect",
        level="quick",
        reference="6.3",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.QUEUES_OF_ANOTHER_LOG,
        severity=Severity.ERROR,
        template=(
            "no consume queue refers to this commit log: it covers {start_offset} to {end_offset}, the "
            "queues end at {queue_min} to {queue_max}"
        ),
        why=(
            "All queues lie outside the commit log: it was replaced, or taken from another broker. A start "
            "cuts the queues, and no index entry is added until the log has grown past the old offsets."
        ),
        strictness="heuristic",
        level="cross",
        reference="6.6",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.NOT_A_STORE,
        severity=Severity.ERROR,
        template="{root} holds no commit log, no queue, no index and no checkpoint: it is no store",
        why=(
            "Nothing was checked because nothing was there. storePathRootDir is probably another directory,"
            " one level up or down."
        ),
        strictness="strict",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.QUEUE_ID_NAME,
        severity=Severity.WARNING,
        template="{file} is not the directory of a queue: its name is no queueId",
        why=(
            "Queue directories are named by a decimal integer of at least 0. A broker skips the others: "
            "what is in them cannot be consumed."
        ),
        strictness="strict",
        level="quick",
        repair="move-stray",
        reference="3.5",
        fault_class="Q8",
    ),
    Rule(
        id=RuleName.QUEUE_KIND_TWICE,
        severity=Severity.ERROR,
        template="topic {topic} has queues in consumequeue/ and in batchconsumequeue/",
        why=(
            "A topic is of one kind. A 5.x broker that meets the other kind throws while it loads the queues."
        ),
        strictness="dialect",
        level="quick",
        repair="rebuild-queue",
        reference="3.7",
        fault_class="Q10",
    ),
    Rule(
        id=RuleName.QUEUE_KIND_ATTRIBUTE,
        severity=Severity.ERROR,
        template="topic {topic} is in {area}/, but topics.json says queue.type={attribute}",
        why=(
            "The attribute decides which tree a broker reads and writes; the queues in the other tree are "
            "not consumable, or the broker does not start."
        ),
        strictness="dialect",
        level="quick",
        repair="set-queue-type",
        reference="3.7",
        fault_class="Q10",
    ),
    Rule(
        id=RuleName.QUEUE_EXTENSION_ORPHAN,
        severity=Severity.WARNING,
        template="{file} is the extension of a consume queue that does not exist",
        why=(
            "It was left behind when the queue was deleted. If the topic comes back, its units do not "
            "belong to the new messages."
        ),
        strictness="strict",
        level="quick",
        repair="remove-extension",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.BROKER_ALIVE,
        severity=Severity.INFO,
        template="a broker has this store open ({how}): the ends of its files may be changing",
        why=(
            "Findings at the ends of the log, the queues and the index may be the broker at work. Nothing "
            "may be written here while it runs."
        ),
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.BROKER_UNKNOWN,
        severity=Severity.INFO,
        template="whether a broker has this store open is not known: {how}",
        why="The lock is a POSIX record lock on the first byte of `lock`; it cannot be tested here.",
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.INDEX_FOREIGN_FILE,
        severity=Severity.INFO,
        template="{file} is no index file; brokers ignore it",
        why="Its name is not a number. It stays where it is.",
        strictness="strict",
        level="quick",
        repair="move-stray",
        reference="1.4",
    ),
    Rule(
        id=RuleName.INDEX_NAME,
        severity=Severity.WARNING,
        template="{file} is loaded as an index file, but its name is not a time (yyyyMMddHHmmssSSS)",
        why=(
            "Brokers name index files by their time of creation and load whatever name is a number. If it "
            "sorts last, it receives the next puts."
        ),
        strictness="heuristic",
        level="quick",
        repair="move-stray",
        reference="1.4",
        fault_class="I9",
    ),
    Rule(
        id=RuleName.INDEX_DIRECTORY,
        severity=Severity.ERROR,
        template="{file} is no regular file: a broker {effect}",
        why=(
            "Mapping it fails, and loading the index ends there. From 5.1.0 on the broker then refuses to "
            "start; before, the index files that sort after it are not loaded."
        ),
        strictness="dialect",
        level="quick",
        repair="move-stray",
        reference="1.4",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.TIMES_LOST,
        severity=Severity.INFO,
        template=(
            "all {file_count} commit log files were modified within a second, long after their last records"
        ),
        why=(
            "The store was copied without modification times. Retention counts from them, and brokers up to"
            " 4.9.8 choose a queue's file for a search by time with them."
        ),
        strictness="heuristic",
        level="cross",
        repair="restore-times",
        reference="6.7",
        fault_class="O1",
    ),
    Rule(
        id=RuleName.STRAY,
        severity=Severity.INFO,
        template="{file} is not part of a store ({reason})",
        why="No known broker version reads or writes it.",
        strictness="heuristic",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.LINK_DANGLING,
        severity=Severity.WARNING,
        template="{file} is a symbolic link that leads nowhere",
        why="What it should lead to is not there: a disk that is not mounted, a path that moved.",
        strictness="strict",
        level="quick",
        reference="1.1",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.QUEUE_DATABASE,
        severity=Severity.INFO,
        template=("{file} is a RocksDB of {file_count} files with consume queues"),
        why=(
            "From 5.2.0 on a broker can keep its consume queues in RocksDB, instead of files or beside them. "
            "Queues without files are not missing then. No repair changes queues of files unless it is "
            "forced by name."
        ),
        strictness="config",
        level="quick",
        reference="3.9",
        unknown=True,
    ),
    Rule(
        id=RuleName.UNKNOWN_DATABASE,
        severity=Severity.INFO,
        template="{file} is a RocksDB of {file_count} files that no broker known to this version makes",
        why=(
            "A newer broker may keep its consume queues or its index there. Queues without files are not "
            "called missing, and no repair changes queues or the index unless it is forced by name."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.1",
        unknown=True,
    ),
    Rule(
        id=RuleName.NEWER_INDEX,
        severity=Severity.INFO,
        template=(
            "{file}/ is from a broker of 5.4.0 or later, which indexes tags: this version does not write "
            "such entries"
        ),
        why=(
            "Every broker from 5.4.0 on makes this directory. It also puts an index entry for the tag of "
            "each message, which queries by tag need. An index that this version builds lacks these entries, "
            "so no repair changes the index unless it is forced by name."
        ),
        strictness="dialect",
        level="quick",
        reference="4.5",
        unknown=True,
    ),
    Rule(
        id=RuleName.LOG_PLACES_INFERRED,
        severity=Severity.INFO,
        template="the commit log is read from {directories}: their files are one, and no setting names them",
        why=(
            "A store does not record where its commit log is. A broker that starts without all of these "
            "directories in storePathCommitLog misses their files, and cuts the log or deletes the queues."
        ),
        strictness="config",
        level="quick",
        reference="1.3",
    ),
    Rule(
        id=RuleName.LOG_PLACE_DOUBTFUL,
        severity=Severity.WARNING,
        template="{file} may belong to the commit log and is not read: {reason}",
        why=(
            "Name all directories of the commit log with --commitlog-path, or the broker's settings with "
            "--broker-conf. A copy that is none of the broker's own may lie anywhere but in the store."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.3",
        fault_class="C8",
    ),
)
