"""The fault classes: what breaks in stores in real life, and what to do about it. Data only.

A rule names the class that a breach of it belongs to; `verify.diagnoses` makes one diagnosis a class
from the findings. Classes are never renumbered: `C` commit log, `Q` consume queue, `I` index, `K` checkpoint,
abort and config, `H` replicas and side files, `O` other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rocketfsck.rulenames import RuleName


@dataclass(frozen=True, slots=True)
class FaultClass:
    """One class: `meaning` says what happened and what follows, `advice` what to do before anything else."""

    id: str
    title: str
    meaning: str
    advice: str


_TABLE = (
    FaultClass(
        "C1",
        "half-written last record",
        "The last record was cut while it was written, as a power loss leaves it. A broker cuts the log "
        "there when it starts, and drops what the queues and the index say about it.",
        "One message at most is lost. Keep a copy of the last segment before a broker starts.",
    ),
    FaultClass(
        "C2",
        "record boundary lost in the middle of the log",
        "Bytes in the middle of the log belong to no record, but sound records follow. A broker that "
        "recovers over this place cuts the log here and deletes all later segments; one that dispatches "
        "over it skips the rest of the file.",
        "Do not start the broker: it would delete the records that follow. Copy the store first.",
    ),
    FaultClass(
        "C3",
        "old records behind the end of the log",
        "A former truncation left old records on disk behind the end of the log. They pass every check "
        "of a record, and a restart may take them for live ones when a new record happens to end where "
        "one of them begins.",
        "They are not live messages. A repair seals them with zeros.",
    ),
    FaultClass(
        "C4",
        "checksum mismatch",
        "A record's bytes differ from those its checksum was made of, while its frame and its "
        "neighbours are sound: bit rot, or a writer that stored another checksum. Most brokers cut the "
        "log at such a record when they recover over it, and everything after it goes.",
        "Nothing but this record is damaged. Compare it with a replica before a broker starts.",
    ),
    FaultClass(
        "C5",
        "segment missing",
        "A segment between two others is not there. Brokers only log it, and read on over the gap as if "
        "nothing were missing.",
        "Look for the segment in backups, on a replica, or on another commit log path that is not mounted.",
    ),
    FaultClass(
        "C6",
        "file of wrong length or name among the segments",
        "A file in a segment directory has another length than its neighbours, or a name that is no "
        "offset. From 4.5.1 on most brokers refuse to start; up to 4.4.0 they silently ignore that file "
        "and all that sort after it.",
        "Move strays out of the directory; never delete a segment before its content is known.",
    ),
    FaultClass(
        "C7",
        "same segment on two commit log paths",
        "Two commit log directories hold a segment of the same name. Brokers load both.",
        "Keep the one with records. If both hold records, stop and compare them.",
    ),
    FaultClass(
        "C8",
        "commit log empty while queues are full",
        "There is no commit log, but there are consume queues. A broker that starts now deletes every "
        "consume queue: an unmounted disk is enough.",
        "Do not start the broker. Find the commit log first: wrong path, disk not mounted, wrong "
        "storePathCommitLog.",
    ),
    FaultClass(
        "C9",
        "disk was full",
        "Files were created but never filled.",
        "Free space before the broker starts.",
    ),
    FaultClass(
        "C10",
        "malformed fields in a framed record",
        "A record has sound boundaries, but lengths or fields inside that contradict each other. "
        "Brokers cut the log there or dispatch nonsense, depending on the field.",
        "Look at the bytes: dump --hex shows every field.",
    ),
    FaultClass(
        "C11",
        "time runs backwards",
        "storeTimestamps decrease along the log: the clock was set back, or another broker's records "
        "were appended. Searching by time and recovery's choice of the first file rely on them.",
        "Nothing is lost. Answers by time are not exact around that place.",
    ),
    FaultClass(
        "Q1",
        "consume queue behind the log",
        "Records were stored but never entered into their consume queue: consumers cannot see them.",
        "Whether a broker catches up by itself depends on its version and on how it stopped.",
    ),
    FaultClass(
        "Q2",
        "consume queue ahead of the log",
        "Units point at or behind the end of the log, or at bytes that are no record. They were left by "
        "a truncation or a crash; after the log has grown they deliver other messages, or nothing.",
        "The units are worthless: their records do not exist.",
    ),
    FaultClass(
        "Q3",
        "consume queue shifted or with holes",
        "Units do not stand at the index that their record carries, or units are missing in the middle. "
        "Consumers skip messages, get them twice, or commit offsets that do not fit. No broker repairs "
        "this.",
        "The queue can be rebuilt from the log.",
    ),
    FaultClass(
        "Q4",
        "queue offset used twice",
        "Two records carry the same queue offset of the same queue: after a recovery that lost units, "
        "the broker gave the numbers out again. One consume queue can hold only one of them at that "
        "index.",
        "Decide which of the two is wanted; the other can be exported.",
    ),
    FaultClass(
        "Q5",
        "minimum offset wrong",
        "Units at the front of a queue point to segments that were deleted.",
        "Nothing is damaged: the messages have expired.",
    ),
    FaultClass(
        "Q6",
        "last consume queue file empty or cut inside a unit",
        "Several broker versions fail to start on it.",
        "Move the empty file away, or cut it to whole units.",
    ),
    FaultClass(
        "Q7",
        "consume queue lost",
        "The log holds records of a queue that has no consume queue. Only some versions rebuild it, and "
        "only if all queues are gone.",
        "The messages are there: the queue can be rebuilt from the log.",
    ),
    FaultClass(
        "Q8",
        "queue of a topic that is not configured",
        "A consume queue stands on disk whose topic is not in topics.json: deleted and left behind, or "
        "never configured.",
        "Harmless, until a topic of that name is made again.",
    ),
    FaultClass(
        "Q9",
        "consume queue extension dangling",
        "Units point to extension units that do not exist or do not fit.",
        "Extension units are derived data: tag hashes can be put back from the log.",
    ),
    FaultClass(
        "Q10",
        "queue of the wrong kind or at the wrong depth",
        "A topic stands in both the plain and the batch tree, or files lie where directories are expected.",
        "Find out which is in use before moving anything.",
    ),
    FaultClass(
        "Q11",
        "unit does not match its record",
        "A unit points at a sound record, but its size or tagsCode is another. Consumers get a cut "
        "message, or filter by the wrong tag.",
        "The queue can be rebuilt from the log.",
    ),
    FaultClass(
        "I1",
        "index does not cover the log",
        "Records with keys have no index entries, as after an unclean stop, when brokers delete the "
        "newest index file and rebuild only a part of it. Queries by key do not find these messages; "
        "queries by offset do.",
        "The index can be rebuilt from the log.",
    ),
    FaultClass(
        "I2",
        "index ahead of the log",
        "The newest index file ends behind the log. A broker indexes nothing, without a word, until the "
        "log has grown past that point.",
        "The index can be rebuilt from the log.",
    ),
    FaultClass(
        "I3",
        "hash chains broken",
        "Links of the index do not form the chains that putting the entries in order would have made. "
        "Queries miss messages; a circle of more than one entry makes a broker's query thread run "
        "forever, with a lock held.",
        "The file's links can be rebuilt from its own entries, or the whole file from the log.",
    ),
    FaultClass(
        "I4",
        "empty index files",
        "Index files were created and never written to, often many within minutes: mapping them failed.",
        "They hold nothing. See to memory map limits and disk space.",
    ),
    FaultClass(
        "I5",
        "hash collisions in the index",
        "Different keys have one hash. Brokers compare nothing else, so that a query by one key finds the "
        "messages of the other, too.",
        "Nothing is damaged. Compare the keys of what a query gives.",
    ),
    FaultClass(
        "I6",
        "index header wrong",
        "The header's counts, offsets or times contradict the entries. Brokers believe the header.",
        "The header can be recomputed from the entries.",
    ),
    FaultClass(
        "I7",
        "index times wrong",
        "Entries' times differ from their records' storeTimestamps by more than rounding: queries with "
        "a time window miss messages.",
        "The index can be rebuilt from the log.",
    ),
    FaultClass(
        "I8",
        "index entries twice",
        "Keys of a record are indexed more often than the record has them, as a restart leaves it.",
        "Harmless: a query may show a message twice.",
    ),
    FaultClass(
        "I9",
        "index files out of order",
        "The names' order differs from the order of what is in the files. Brokers take the last name "
        "for the newest.",
        "Queries may stop too early; new entries may go into the wrong file.",
    ),
    FaultClass(
        "I10",
        "index file too short or too long",
        "A broker extends a short index file with zeros and uses it as if nothing were missing.",
        "The file can be rebuilt from the log.",
    ),
    FaultClass(
        "I11",
        "slots of the index unevenly used",
        "Few slots hold most entries: one key is in very many messages, or keys hash alike. Queries walk "
        "long chains.",
        "Nothing is damaged. See to the keys that producers set.",
    ),
    FaultClass(
        "I12",
        "index entries do not match the log",
        "Entries point at no record, or at one that does not have their key. Brokers return whatever "
        "stands there.",
        "The index can be rebuilt from the log.",
    ),
    FaultClass(
        "K1",
        "checkpoint missing, zero or old",
        "After an unclean stop a broker would scan more of the log than it had to: minutes to hours.",
        "A checkpoint can be computed from verified data.",
    ),
    FaultClass(
        "K2",
        "checkpoint ahead of the data",
        "The checkpoint names times later than anything in the store. After an unclean stop a broker "
        "would start its scan too late, and records before that would never be dispatched.",
        "Lower it before a broker starts.",
    ),
    FaultClass(
        "K3",
        "confirmed offset wrong",
        "confirmPhyOffset is no record's start, or outside the log.",
        "Controller mode relies on it; plain brokers do not.",
    ),
    FaultClass(
        "K4",
        "unclean stop",
        "The broker did not stop in good order: `abort` is there. The next start recovers by the "
        "checkpoint and deletes every index file that is newer than it.",
        "Copy index/ before the broker starts, or plan to rebuild it.",
    ),
    FaultClass(
        "K5",
        "config file damaged",
        "A JSON file of the broker does not parse. A broker falls back to the .bak beside it without a "
        "word, or, with both gone, starts with none: consumer offsets and topics are then reset.",
        "Put a good copy back before the broker starts.",
    ),
    FaultClass(
        "K6",
        "consumer offset outside its queue",
        "A group's offset is below the queue's minimum or above its maximum: the group skips messages "
        "or gets them again.",
        "Check the group before it starts to consume.",
    ),
    FaultClass(
        "H3",
        "files of controller mode do not fit",
        "Entries of the epoch file do not ascend, or lie outside the log; the identity cannot be read.",
        "In controller mode a replica may refuse to join.",
    ),
    FaultClass(
        "H4",
        "DLedger data and index disagree",
        "An entry of the DLedger store is not where it says it is.",
        "The index beside the data can be rebuilt.",
    ),
    FaultClass(
        "H5",
        "timer files point behind the log",
        "Timer units refer to commit log positions that are gone or are no timer messages.",
        "Delayed messages may be delivered wrongly or retried forever.",
    ),
    FaultClass(
        "O1",
        "copied or moved store",
        "Files look copied: times of modification or host addresses do not fit. Brokers delete segments "
        "by the time of their last modification.",
        "Copy stores with their times preserved.",
    ),
)

FAULT_CLASSES: Mapping[str, FaultClass] = MappingProxyType({item.id: item for item in _TABLE})

MEANINGS_OF_ONE_RULE: Mapping[str, str] = {
    RuleName.EMPTY_LAST_SEGMENT: (
        "The last file of a segment directory is empty, as a process that dies right after creating it "
        "leaves it. From 5.1.3 on a broker deletes that file at its next start and goes on; earlier "
        "versions stop at it."
    ),
    RuleName.INDEX_FILE_DOOMED: (
        "The newest index files are later than the checkpoint's time for the index. Their entries are there; "
        "a start after an unclean stop deletes these files and puts only a part of the entries again."
    ),
}
"""What a class means where all of its findings are of this rule: less than the class may mean."""
