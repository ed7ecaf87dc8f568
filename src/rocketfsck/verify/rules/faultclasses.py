"""The fault classes: what breaks in stores in real life, and what to do about it. Data only.

A rule names the class that a breach of it belongs to; `verify.diagnoses` makes one diagnosis a class
from the findings. Classes are never renumbered: `C` commit log, `Q` consume queue, `I` index, `K` checkpoint,
abort and config, `H` replicas and side files, `O` other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rocketfsck.common.rulenames import RuleName


@dataclass(frozen=True, slots=True)
class FaultClass:
    """One class: `meaning` says what happened and what follows, `advice` what to do before anything else.

    `found_by` is the command that finds it where no rule does, because one store does not show it.
    """

    id: str
    title: str
    meaning: str
    advice: str
    found_by: str = ""


_TABLE = (
    FaultClass(
        "C1",
        "half-written last record",
        "The last record is incomplete, as after a power loss. A broker cuts the log there when it "
        "starts, and drops the units and index entries of that record.",
        "At most one message is lost. Copy the last segment before a broker starts.",
    ),
    FaultClass(
        "C2",
        "record boundary lost in the middle of the log",
        "Bytes in the middle of the log are not part of a record, but sound records follow. A broker "
        "whose recovery reads this place cuts the log here and deletes all later segments. A broker that "
        "dispatches over this place skips the rest of the file.",
        "Copy the store before you start a broker: if the start reads this place, the broker deletes the "
        "records that follow. The verdict says which versions do that; a repair keeps the records.",
    ),
    FaultClass(
        "C3",
        "old records after the end of the log",
        "A truncation left old records on disk after the end of the log. The records pass every check, "
        "and a restart may take them for live ones if a new record ends exactly where an old one begins.",
        "The old records are not live messages. A repair overwrites them with zeros.",
    ),
    FaultClass(
        "C4",
        "checksum mismatch",
        "The bytes of a record do not match its checksum, while its frame and its neighbours are sound: a "
        "bit flipped on disk, or a writer stored a wrong checksum. Most brokers cut the log at such a "
        "record when their recovery reads it, and everything after it is lost.",
        "Only this record is damaged. Compare it with a replica before a broker starts.",
    ),
    FaultClass(
        "C5",
        "segment missing",
        "A segment between two others is missing. Brokers only log the gap and read on.",
        "Look for the segment in backups, on a replica, or on another commit log path that is not mounted.",
    ),
    FaultClass(
        "C6",
        "file of wrong length or name among the segments",
        "A file in a segment directory has another length than its neighbours, or a name that is not an "
        "offset. From 4.5.1 on most brokers refuse to start; up to 4.4.0 they silently ignore that file "
        "and all files that sort after it.",
        "Move stray files out of the directory. Do not delete a segment before you know its contents.",
    ),
    FaultClass(
        "C7",
        "same segment on two commit log paths",
        "Two commit log directories hold a segment of the same name. Brokers load both.",
        "Keep the segment with records. If both hold records, stop and compare them.",
    ),
    FaultClass(
        "C8",
        "commit log empty while queues are full",
        "There are consume queues or index entries but no commit log. From 4.5.1 on every start deletes all "
        "consume queues; older brokers do so after an unclean stop. An unmounted disk is enough to cause "
        "this state.",
        "Find the commit log before you start a broker: check the mounts and storePathCommitLog. The "
        "verdict says what a start would delete.",
    ),
    FaultClass(
        "C9",
        "disk was full",
        "Files were created but never filled. A broker makes a file when the one before it is full: "
        "messages that it acknowledged while it went past these files are lost, and nothing in the store "
        "says how many.",
        "Free disk space before a broker starts.",
    ),
    FaultClass(
        "C10",
        "malformed fields in a framed record",
        "A record has sound boundaries, but its inner lengths or fields contradict each other. Depending "
        "on the field, brokers cut the log there or dispatch wrong values.",
        "Look at the bytes: dump --hex shows every field.",
    ),
    FaultClass(
        "C11",
        "time runs backwards",
        "The storeTimestamp decreases along the log: the clock was set back, or records of another broker "
        "were appended. Searches by time, and a recovery's choice of its first file, rely on rising "
        "times.",
        "Nothing is lost. Answers by time are not exact around that place.",
    ),
    FaultClass(
        "Q1",
        "consume queue behind the log",
        "The log has records without a unit in their consume queue, so consumers cannot see them.",
        "Whether a broker adds the units by itself depends on its version and on how it stopped.",
    ),
    FaultClass(
        "Q2",
        "consume queue ahead of the log",
        "Units point beyond the end of the log, or at bytes that are not a record. A truncation or a "
        "crash left these units. Once the log has grown, they deliver other messages, or nothing.",
        "Nothing is lost with these units: their records do not exist.",
    ),
    FaultClass(
        "Q3",
        "consume queue shifted or with holes",
        "Units are not at the index that their record names, or units are missing in the middle. "
        "Consumers skip messages, get them twice, or commit offsets that do not fit. No broker repairs "
        "this damage.",
        "A repair can rebuild the queue from the log.",
    ),
    FaultClass(
        "Q4",
        "queue offset used twice",
        "Two records have the same queue offset of the same queue: after a recovery that lost units, the "
        "broker assigned the numbers again. A consume queue can hold only one of the two records at that "
        "index.",
        "Decide which of the two messages you want; export the other.",
    ),
    FaultClass(
        "Q5",
        "minimum offset wrong",
        "Units at the front of a queue point to deleted segments.",
        "Nothing is damaged: the messages have expired.",
    ),
    FaultClass(
        "Q6",
        "last consume queue file empty or cut inside a unit",
        "Several broker versions fail to start on such a file.",
        "Move the empty file away, or cut it to whole units.",
    ),
    FaultClass(
        "Q7",
        "consume queue lost",
        "The log holds records of a queue that has no consume queue. Only some versions rebuild the "
        "queue, and only if all queues are gone.",
        "The messages are in the log: a repair can rebuild the queue.",
    ),
    FaultClass(
        "Q8",
        "queue of a topic that is not configured",
        "A consume queue belongs to a topic that is not in topics.json. The topic was deleted and left "
        "its queue behind, or was never configured.",
        "The queue is harmless until a topic of that name is created again.",
    ),
    FaultClass(
        "Q9",
        "consume queue extension dangling",
        "Units point to extension units that do not exist or do not fit.",
        "Extension units are derived data: a repair restores the tag hashes from the log.",
    ),
    FaultClass(
        "Q10",
        "queue of the wrong kind or at the wrong depth",
        "A topic has queues in both the plain and the batch tree, or files are where directories should be.",
        "Find out which tree is in use before you move anything.",
    ),
    FaultClass(
        "Q11",
        "unit does not match its record",
        "A unit points at a sound record, but with another size or tagsCode. Consumers get a cut message, "
        "or filter by the wrong tag.",
        "A repair can rebuild the queue from the log.",
    ),
    FaultClass(
        "I1",
        "index does not cover the log",
        "Records with keys have no index entries. After an unclean stop, for example, brokers delete the "
        "newest index file and rebuild only a part of it. Queries by key do not find these messages; "
        "queries by offset do.",
        "A repair can rebuild the index from the log.",
    ),
    FaultClass(
        "I2",
        "index ahead of the log",
        "The newest index file ends beyond the end of the log. A broker silently indexes nothing until "
        "the log has grown past that point.",
        "A repair can rebuild the index from the log.",
    ),
    FaultClass(
        "I3",
        "hash chains broken",
        "The links of the index differ from the chains that the entries make when put in order. Queries "
        "miss messages. A circle of more than one entry makes a broker's query thread run forever, with a "
        "lock held.",
        "A repair can rebuild the links from the file's own entries, or the whole file from the log.",
    ),
    FaultClass(
        "I4",
        "empty index files",
        "Index files were created but never written, often many within minutes: mapping them failed.",
        "The files hold nothing. Check memory map limits and disk space.",
    ),
    FaultClass(
        "I5",
        "hash collisions in the index",
        "Different keys have the same hash. Brokers compare only the hash, so a query by one key also "
        "finds the messages of the other.",
        "Nothing is damaged. Compare the keys in query results.",
    ),
    FaultClass(
        "I6",
        "index header wrong",
        "The header's counts, offsets or times contradict the entries. Brokers trust the header.",
        "A repair can compute the header again from the entries.",
    ),
    FaultClass(
        "I7",
        "index times wrong",
        "The times of entries differ from the storeTimestamps of their records by more than rounding. "
        "Queries with a time window miss messages.",
        "A repair can rebuild the index from the log.",
    ),
    FaultClass(
        "I8",
        "index entries twice",
        "The index has more entries for a record than the record has keys, as a restart leaves it.",
        "The extra entries are harmless: a query may show a message twice.",
    ),
    FaultClass(
        "I9",
        "index files out of order",
        "The order of the file names differs from the order of the contents. Brokers take the last name "
        "for the newest file.",
        "Queries may stop too early; new entries may go into the wrong file.",
    ),
    FaultClass(
        "I10",
        "index file too short or too long",
        "A broker extends a short index file with zeros and uses it without a warning.",
        "A repair can rebuild the file from the log.",
    ),
    FaultClass(
        "I11",
        "slots of the index unevenly used",
        "Few slots hold most entries: very many messages have the same key, or keys hash alike. Queries "
        "walk long chains.",
        "Nothing is damaged. Review the keys that producers set.",
    ),
    FaultClass(
        "I12",
        "index entries do not match the log",
        "Entries point at bytes that are not a record, or at a record without their key. Brokers return "
        "whatever is there.",
        "A repair can rebuild the index from the log.",
    ),
    FaultClass(
        "K1",
        "checkpoint missing, zero or old",
        "After an unclean stop a broker would scan more of the log than necessary: minutes to hours.",
        "A repair can compute the checkpoint from verified data.",
    ),
    FaultClass(
        "K2",
        "checkpoint ahead of the data",
        "The checkpoint names times later than anything in the store. After an unclean stop a broker "
        "would start its scan too late and never dispatch the records before that point.",
        "Repair the checkpoint before a broker starts.",
    ),
    FaultClass(
        "K3",
        "confirmed offset wrong",
        "The checkpoint's confirmPhyOffset is not the start of a record, or is outside the log.",
        "Controller mode relies on this offset; plain brokers do not.",
    ),
    FaultClass(
        "K4",
        "unclean stop",
        "The broker did not stop cleanly: the file `abort` exists. The next start recovers from the "
        "checkpoint and deletes every index file newer than it.",
        "Copy index/ before the broker starts, or plan to rebuild the index.",
    ),
    FaultClass(
        "K5",
        "config file damaged",
        "A JSON file of the broker does not parse. A broker silently falls back to the .bak next to it. If "
        "both are gone, the broker starts with empty settings: consumer offsets and topics are reset.",
        "Put a good copy back before the broker starts.",
    ),
    FaultClass(
        "K6",
        "consumer offset outside its queue",
        "A group's offset is below the queue's minimum or above its maximum: the group skips messages or "
        "gets them again.",
        "Check the group before it starts to consume.",
    ),
    FaultClass(
        "H1",
        "replica outside of the other's range",
        "The log of a slave ends before that of its master begins, or after the master's end. A slave "
        "resumes at its own end: it asks for bytes that the master no longer has, or has not written yet.",
        "Compare the stores before a broker starts: the comparison names the ranges of both, and the offset "
        "from which one can resume from the other.",
        found_by="rocketfsck compare A B",
    ),
    FaultClass(
        "H2",
        "replicas differ at the same offset",
        "Two replicas have different bytes at one physical offset: one of them is damaged there, or the "
        "slave kept messages that its master lost in a crash, and the master wrote others in their place. "
        "Brokers do not compare the bytes: consumers get other messages from the slave than from the master.",
        "Compare the stores before a broker starts: the comparison names the first place where they differ, "
        "and the side that is valid there.",
        found_by="rocketfsck compare A B",
    ),
    FaultClass(
        "H3",
        "files of controller mode do not fit",
        "Entries of the epoch file do not ascend, or are outside the log, or the broker's identity cannot "
        "be read.",
        "In controller mode a replica may refuse to join.",
    ),
    FaultClass(
        "H4",
        "DLedger data and index disagree",
        "An entry of the DLedger store is not where its data or its index says.",
        "The index next to the data can be rebuilt.",
    ),
    FaultClass(
        "H5",
        "timer files point beyond the log",
        "Timer units refer to commit log positions that are gone or do not hold timer messages.",
        "A broker may deliver delayed messages wrongly or retry them forever.",
    ),
    FaultClass(
        "O1",
        "copied or moved store",
        "The files look copied: modification times or host addresses do not fit. Brokers delete segments "
        "by the time of their last modification.",
        "Preserve modification times when you copy a store.",
    ),
    FaultClass(
        "O2",
        "parts from different times",
        "Some files are older than the others: a part of the store was put back from an older copy, the "
        "store was copied while a broker wrote to it, or the disk lost writes.",
        "Look for the newer copy of these files before you repair anything.",
    ),
    FaultClass(
        "O3",
        "files of another store",
        "Files here were written by another broker, or for another log: somebody mixed two stores.",
        "Put the files of this store back before you repair anything.",
    ),
)

FAULT_CLASSES: Mapping[str, FaultClass] = MappingProxyType({item.id: item for item in _TABLE})

MEANINGS_OF_ONE_RULE: Mapping[str, str] = {
    RuleName.EMPTY_LAST_SEGMENT: (
        "The last file of a segment directory is empty, as when a process dies right after creating it. A "
        "broker from 5.1.3 on deletes that file at its next start and continues; most older brokers do not "
        "start."
    ),
    RuleName.LOG_FILE_COPIED: (
        "A commit log file is a copy of another one. Up to 5.3.3 brokers delete such a file at the end of "
        "the log when they start. After a clean stop newer ones keep the copy and append after it, and a "
        "later start after an unclean stop cuts the log in front of the copy and deletes what came after it."
    ),
    RuleName.INDEX_FILE_DOOMED: (
        "The newest index files are later than the checkpoint's time for the index. The entries exist, but a "
        "start after an unclean stop deletes these files and writes only a part of the entries again."
    ),
}
"""What a class means where all of its findings belong to this rule: less than the class may mean."""
