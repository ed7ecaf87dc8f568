"""Rules ST: names, lengths, strays and segments (reference 1.1 to 1.4, 9.1)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.SEGMENT_LENGTH,
        severity=Severity.ERROR,
        template="{file} has {size:byte}, not {expected.size:,}: a broker {effect}",
        why=(
            "Every file of a mapped file queue has the configured length. From 4.5.1 on (except 4.9.2) a "
            "broker refuses to start if a file in such a directory has another length. Older brokers "
            "silently ignore that file and all files that sort after it."
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
        template="{file} is empty and the last file of its directory: a broker {effect}",
        why=(
            "A process that dies between creating a segment and setting its length leaves an empty file. "
            "From 5.1.3 on a broker deletes that file at the next start; most earlier versions refuse to "
            "start."
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
        template="{file} ({size:byte}) does not belong in {area}: a broker {effect}",
        why=(
            "Brokers treat every file in a segment directory as a segment. An editor's swap file, a copy or "
            "a directory keeps the broker from starting, or (up to 4.4.0) hides every segment that sorts "
            "after it."
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
        template="{file} does not belong in {area}; a broker {effect}",
        why="The file is not part of the store. Another broker version may refuse to start because of it.",
        strictness="dialect",
        level="quick",
        repair="move-stray",
        reference="1.2",
    ),
    Rule(
        id=RuleName.FOREIGN_NUMBER,
        severity=Severity.ERROR,
        template="{file} is loaded as the segment at {offset}: its name is a number, but not of 20 digits",
        why=(
            "Long.parseLong accepts the name and the length is right, so the broker loads the file as a "
            "segment. The file takes the place where its name sorts, not where its number belongs."
        ),
        strictness="strict",
        level="quick",
        repair="move-stray",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.LOG_FILE_MISNAMED,
        severity=Severity.ERROR,
        template=(
            "{file} has a wrong name: its records belong to the log from {physical_offset} on "
            "({expected.name})"
        ),
        why=(
            "Somebody renamed the file, or put it back under another name. The messages in it are sound, but "
            "a broker does not find them, and some versions delete the file at their start."
        ),
        strictness="heuristic",
        level="cross",
        repair="rename-segment",
        reference="1.2, 2.1",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.LOG_FILE_COPIED,
        severity=Severity.ERROR,
        template=(
            "{file} is a copy of {original}: its {record_count:record} {record_count?belongs|belong} to the "
            "log from {original_physical_offset} on"
        ),
        why=(
            "Somebody copied the file under a name that is not its own. Up to 5.3.3 brokers delete such a "
            "copy at the end of the log when they start. After a clean stop newer ones keep the copy and "
            "append after it, and a later start after an unclean stop cuts the log in front of the copy and "
            "deletes what came after it."
        ),
        strictness="strict",
        level="cross",
        repair="move-copied-segment",
        reference="1.2, 2.1",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.LOG_FILE_APPENDED,
        severity=Severity.ERROR,
        template="{file} has {file_count:commit log file} appended to it: {names}",
        why=(
            "Somebody wrote a file to the end of another one. From 4.5.1 on (except 4.9.2) a broker refuses "
            "to start on such a file; older brokers silently ignore the file and all files that sort after "
            "it."
        ),
        strictness="strict",
        level="cross",
        repair="split-segment",
        reference="1.2, 2.1",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_GAP,
        severity=Severity.ERROR,
        template="{area} lacks {first_file..last_file:segment} before {file} ({missing_byte_count:byte})",
        why=(
            "Segments follow each other without gaps; brokers remove them only from the front. A broker logs "
            "the gap and reads on: the records in the gap are lost, and a recovery continues in the wrong "
            "file."
        ),
        strictness="strict",
        level="quick",
        repair="fence-gap",
        reference="1.2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.LOG_BEGINNING_GONE,
        severity=Severity.WARNING,
        template=(
            "the commit log begins at {physical_offset}, but {file_count:file} of queues or index that "
            "{file_count?leads|lead} only to what is before {file_count?is|are} still here ({files})"
        ),
        why=(
            "A broker that deletes commit log files deletes such files at once, too. The commit log files in "
            "front went another way: they are on a disk that is not mounted, somebody moved or deleted them, "
            "or the parts of the store were copied at different times. Consumers do not get their messages. "
            "A running broker deletes the files that are left of queues and index. A few files that expired "
            "may have been deleted just before the broker stopped: then nothing is found."
        ),
        strictness="heuristic",
        level="cross",
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
            "Two segments claim the same offsets. The lengths differ, or one segment comes from another "
            "store or from a time when the segment size was different."
        ),
        strictness="strict",
        level="quick",
        reference="1.2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.SEGMENT_TWICE,
        severity=Severity.ERROR,
        template=(
            "{file} has the same name as {twin}; brokers load both, and {zero_file_count} of the two "
            "{zero_file_count?is|are} all zeros"
        ),
        why=(
            "Brokers merge the files of all commit log paths by name and load both. Pre-allocation on a "
            "second disk after the first is full leaves such an all-zero twin."
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
            "{file} begins at {start_offset}, which is not a multiple of the segment size "
            "({expected.multiple:byte})"
        ),
        why=(
            "Names are multiples of the segment size as long as the size never changed. Brokers find the "
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
        template="{file} begins at {start_offset}, in the middle of a unit of {expected.multiple:byte}",
        why=(
            "A queue's segment is named by its byte offset. If the offset is not a multiple of the unit "
            "size, every unit in the file is shifted and the broker reads garbage."
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
        template="{file} is all zeros: a broker created it ahead of use",
        why=(
            "A broker creates the next one or two commit log files before it needs them. A clean stop "
            "removes unused files."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.2",
    ),
    Rule(
        id=RuleName.SEGMENTS_NEVER_FILLED,
        severity=Severity.WARNING,
        template=(
            "{file_count:commit log file} from {file} on {file_count?is|are} all zeros; brokers create at "
            "most 2 ahead of use"
        ),
        why=(
            "The files were created but never filled: the disk was full, mapping failed, or their data never "
            "reached the disk. A broker on a full disk may have acknowledged messages that no file has."
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
            "A broker fills a segment before it begins the next, so the records of this segment are lost: "
            "the disk lost writes, or the file was replaced. A broker that recovers over the file cuts the "
            "log here and deletes all later segments."
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
        template=("there is no commit log, but there {evidence}: a broker {effect}"),
        why=(
            "A start with an empty commit log deletes every consume queue (from 4.5.1 on always, before that "
            "after an unclean stop). An unmounted disk or a wrong storePathCommitLog is enough. Up to 4.9.3 "
            "the default place of the commit log does not follow storePathRootDir."
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
            "no consume queue refers to this commit log: the log covers {start_offset} to {end_offset}, the "
            "queues end at {min_physical_end_offset..max_physical_end_offset}"
        ),
        why=(
            "All queues point outside the commit log: the log was replaced, or comes from another broker. A "
            "start cuts the queues, and the broker adds no index entry until the log has grown past the old "
            "offsets."
        ),
        strictness="heuristic",
        level="cross",
        reference="6.6",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.NOT_A_STORE,
        severity=Severity.ERROR,
        template="{root} is not a store: there is no commit log, no queue, no index and no checkpoint",
        why=(
            "Nothing was checked because the directory holds no part of a store. The store "
            "(storePathRootDir) is probably one level up or down."
        ),
        strictness="strict",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.QUEUE_ID_NAME,
        severity=Severity.WARNING,
        template="{file} is not a queue directory: its name is not a queueId",
        why=(
            "Queue directories are named by a decimal integer of at least 0. A broker skips all others, so "
            "consumers cannot read what is in them."
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
            "A topic has queues of one kind. A 5.x broker that finds the other kind throws an exception "
            "while it loads the queues."
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
            "The attribute decides which tree a broker reads and writes. Consumers cannot read the queues in "
            "the other tree, or the broker does not start."
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
            "The extension was left behind when the queue was deleted. If the topic is created again, these "
            "units do not belong to its new messages."
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
            "Findings at the ends of the log, the queues and the index may be the work of the running "
            "broker. Change nothing in the store while a broker runs."
        ),
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.BROKER_UNKNOWN,
        severity=Severity.INFO,
        template="cannot tell whether a broker has this store open: {how}",
        why=(
            "A broker holds a POSIX record lock on the first byte of `lock`. That lock cannot be tested here."
        ),
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.INDEX_FOREIGN_FILE,
        severity=Severity.INFO,
        template="{file} is not an index file; brokers ignore it",
        why="The name is not a number. Brokers leave the file where it is.",
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
            "Brokers name index files by their creation time and load every file whose name is a number. If "
            "this file sorts last, new entries go into it."
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
        template="{file} is not a regular file: a broker {effect}",
        why=(
            "The name is a number: mapping the file fails, and loading the index ends there. From 5.1.0 on "
            "the broker then refuses to start; older brokers do not load the index files that sort after it."
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
            "{file_count:commit log file} {file_count?was|were} modified within one second, long after the "
            "last records"
        ),
        why=(
            "The store was copied without modification times. Retention counts from these times, and brokers "
            "up to 4.9.8 use them to choose a queue's file for a search by time."
        ),
        strictness="heuristic",
        level="cross",
        repair="restore-times",
        reference="6.7",
        fault_class="O1",
    ),
    Rule(
        id=RuleName.REPAIR_INTERRUPTED,
        severity=Severity.ERROR,
        template="a repair was interrupted while it changed files of the store ({directory})",
        why=(
            "Some files are repaired already, and others are as they were before. Finish the repair with "
            "`rocketfsck fix STORE`, or take it back with `rocketfsck undo STORE`, before anything else."
        ),
        strictness="strict",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.REPAIR_UNFINISHED,
        severity=Severity.INFO,
        template="a repair is running, or was interrupted before its end ({directory})",
        why=(
            "No file of the store is half repaired: a repair builds its result next to the store and "
            "publishes all of it at once. `rocketfsck fix STORE` begins again, and `rocketfsck undo STORE` "
            "removes what is left."
        ),
        strictness="strict",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.REGULAR_DEVIATION,
        severity=Severity.INFO,
        template=(
            "{deviating_count:,} of the places that {rules} looked at differ alike: no broker up to "
            "{newest_version} writes them so"
        ),
        why=(
            "Damage hits some places, and these in different ways. What nearly all places have alike is what "
            "a broker writes that is newer than this version of rocketfsck. Nothing of it is called damage, "
            "and no repair writes there unless you force it by name."
        ),
        strictness="heuristic",
        level="quick",
        reference="9",
        unknown=True,
    ),
    Rule(
        id=RuleName.FILES_ALIKE,
        severity=Severity.INFO,
        template=(
            "{file_count:file} in {file} {file_count?has|have} names alike ({pattern}): no broker up to "
            "{newest_version} has such files"
        ),
        why=(
            "Each file, or each directory, has one: a newer broker may need them, or somebody keeps sums or "
            "packed copies there. The brokers that are known do not start with such files among "
            "the segments. No repair moves them unless you force it by name."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.1",
        unknown=True,
    ),
    Rule(
        id=RuleName.STRAY,
        severity=Severity.INFO,
        template="{file} is not part of a store ({reason})",
        why="No known broker version reads or writes this file.",
        strictness="heuristic",
        level="quick",
        reference="1.1",
    ),
    Rule(
        id=RuleName.LINK_DANGLING,
        severity=Severity.WARNING,
        template="{file} is a symbolic link whose target does not exist",
        why="The target is missing: a disk is not mounted, or a path moved.",
        strictness="strict",
        level="quick",
        reference="1.1",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.QUEUE_DATABASE,
        severity=Severity.INFO,
        template="{file} is a RocksDB database with consume queues ({file_count:file})",
        why=(
            "From 5.2.0 on a broker can keep its consume queues in RocksDB, instead of files or in addition "
            "to files. In such a store, queues without files are not missing. No repair changes queues in "
            "files unless you force it by name."
        ),
        strictness="config",
        level="quick",
        reference="3.9",
        unknown=True,
    ),
    Rule(
        id=RuleName.UNKNOWN_DATABASE,
        severity=Severity.INFO,
        template=(
            "{file} is a RocksDB database ({file_count:file}) that no broker known to this version creates"
        ),
        why=(
            "A newer broker may keep its consume queues or its index there. Queues without files are not "
            "reported as missing, and no repair changes queues or the index unless you force it by name."
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
            "{file}/ comes from a broker of 5.4.0 or later, which indexes tags: this version does not write "
            "such entries"
        ),
        why=(
            "Every broker from 5.4.0 on creates this directory, and adds an index entry for the tag of each "
            "message. Queries by tag need these entries. An index built by this version lacks them, so no "
            "repair changes the index unless you force it by name."
        ),
        strictness="dialect",
        level="quick",
        reference="4.5",
        unknown=True,
    ),
    Rule(
        id=RuleName.LOG_PLACES_INFERRED,
        severity=Severity.INFO,
        template=(
            "the commit log is read from {directories}: their files form one log, and no setting names them"
        ),
        why=(
            "A store does not record where its commit log is. A broker whose storePathCommitLog lacks one of "
            "these directories misses its files, and cuts the log or deletes the queues."
        ),
        strictness="config",
        level="quick",
        reference="1.3",
    ),
    Rule(
        id=RuleName.LOG_PLACE_DOUBTFUL,
        severity=Severity.WARNING,
        template="{file} may belong to the commit log and was not read: {reason}",
        why=(
            "Name all directories of the commit log with --commitlog-path, or give the broker's settings "
            "with --broker-conf. Keep copies that the broker does not use outside the store."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.3",
        fault_class="C8",
    ),
    Rule(
        id=RuleName.READS_DIFFER,
        severity=Severity.ERROR,
        template="two reads of the same bytes differ: only one of them breaks {rules}",
        why=(
            "The bytes looked wrong, and the check read them a second time, past the page cache. A disk, a "
            "cable, a controller, memory or a file system gives other bytes from time to time, so nobody "
            "knows what the file holds. No repair is planned here: look at the hardware and at the kernel's "
            "log, copy the store to a sound machine, and check the copy."
        ),
        strictness="strict",
        level="cross",
        reference="9.2",
    ),
    Rule(
        id=RuleName.OPENED_WRONGLY,
        severity=Severity.ERROR,
        template="{file} is a {kind}, where brokers need a {expected.kind}: a broker {effect}",
        why=(
            "Brokers open these files when they start, or make them at the end of a start, and give up where "
            "they cannot. Move what has the name away, after a look at what is in it."
        ),
        strictness="dialect",
        level="quick",
        repair="move-stray",
        reference="6.1",
    ),
)
