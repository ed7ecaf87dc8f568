"""Rules IX: index headers, slots, entries and chains (reference 4, 9.4)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.INDEX_LENGTH,
        severity=ERROR,
        template="the index file has {size:byte}, expected {expected.size:,}: {reason}",
        why=(
            "A broker maps the full length without checking, which extends a short file with zeros. Queries "
            "do not find keys in the missing part, and the broker puts new entries after a hole."
        ),
        strictness="strict",
        level="quick",
        repair="rebuild-index",
        reference="4.1, 9.1 L9",
        fault_class="I10",
    ),
    Rule(
        id=RuleName.INDEX_HEADER_COUNT,
        severity=ERROR,
        template="indexCount is {index_count}; {reason}",
        why="Brokers ignore entries at or after indexCount and overwrite them.",
        strictness="strict",
        level="quick",
        repair="rebuild-index",
        reference="4.2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_COUNT,
        severity=WARNING,
        template=(
            "hashSlotCount is {hash_slot_count}; the file uses {slot_count:slot} and {entry_count:entry}"
        ),
        why=(
            "Up to 4.7.0 hashSlotCount counts entries, from 4.7.1 on used slots; in a file written by both, "
            "the value lies between. No broker relies on it."
        ),
        strictness="dialect",
        level="cross",
        repair="rewrite-index-header",
        reference="4.2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_HEADER_RANGE,
        severity=ERROR,
        template="header field {field} is {value}; expected {expected.value}",
        why=(
            "Queries by time skip the file by these fields; building the index skips every record below "
            "endPhyOffset."
        ),
        strictness="strict",
        level="cross",
        repair="rewrite-index-header",
        reference="4.4, 9.4 I10",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_OUT_OF_RANGE,
        severity=ERROR,
        template="slot {slot} holds {value}, outside 0 to {expected.last_entry}",
        why="A broker treats the slot as empty: queries do not find the keys of its chain.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I3",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_HEAD,
        severity=ERROR,
        template="slot {slot} holds {value}; expected {expected.value} ({reason})",
        why=(
            "A slot holds the newest entry of its chain. Queries do not find entries newer than the one that "
            "the slot holds."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_SELF_LOOP,
        severity=ERROR,
        template="entry {entry} names itself as the previous one of slot {slot}",
        why="Readers stop here: queries do not find the older keys of the chain.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.7, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_CYCLE,
        severity=ERROR,
        template=(
            "the chain of slot {slot} returns from entry {entry} to {value} (a circle of {entry_count:entry})"
        ),
        why=(
            "A broker that looks up a key of this slot follows the circle until it has enough results, or "
            "forever with the index locked."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.7, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_NOT_DECREASING,
        severity=ERROR,
        template="entry {entry} names the later entry {value} as the previous one; expected {expected.value}",
        why="Chains lead only from newer to older entries.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_OUT_OF_RANGE,
        severity=ERROR,
        template="entry {entry} names {value} as the previous one, outside 0 to {expected.last_entry}",
        why="Readers stop here: queries do not find the older keys of the chain.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_CROSS_LINK,
        severity=ERROR,
        template="entry {entry} of slot {slot} leads to entry {value}, which belongs to slot {other_slot}",
        why="The chain runs into that of another slot: queries do not find the older keys of its own slot.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_SKIPS,
        severity=ERROR,
        template="entry {entry} leads to {value} and skips {expected.value} of the same slot",
        why="No chain reaches the entries between the two.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I6",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_ORPHAN,
        severity=ERROR,
        template="no slot leads to {entry_count:entry}, the first is {entry} (slot {slot})",
        why="Queries do not find the keys of these entries.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="9.4 I6",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_HASH,
        severity=ERROR,
        template="entry {entry} has the negative hash {value}",
        why="The hash is an absolute value, so it is never negative.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.3, 9.4 I4",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_TIME_NEGATIVE,
        severity=ERROR,
        template="entry {entry} has the negative timeDiff {value}",
        why="A reader stops its walk at such an entry, before it compares the hash.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.7, 9.4 I8",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_ORDER,
        severity=ERROR,
        template=(
            "entry {entry} points to {physical_offset}, before the previous entry "
            "({previous_physical_offset})"
        ),
        why="Brokers put entries in the order of the log.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="9.4 I11",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_BEHIND_COUNT,
        severity=WARNING,
        template=(
            "{entry_count:entry} at or after indexCount {entry_count?is|are} not zero, the first is {entry}"
        ),
        why="The header of the last put did not reach the disk, or the header went back to an older state.",
        strictness="heuristic",
        level="cross",
        repair="rewrite-index-header",
        reference="9.4 I2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_ZERO,
        severity=WARNING,
        template="entry 0 is not zero",
        why="Brokers never use entry 0.",
        strictness="strict",
        level="cross",
        repair="rewrite-index-header",
        reference="4.1, 9.4 I2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_EMPTY,
        severity=INFO,
        template="the index file holds no entry",
        why="A broker creates the file before the first put; an empty newest file is normal.",
        strictness="heuristic",
        level="quick",
        reference="4.2",
        fault_class="I4",
    ),
    Rule(
        id=RuleName.INDEX_EMPTY_MANY,
        severity=WARNING,
        template="{file_count:index file} {file_count?holds|hold} no entry",
        why="Each failed mapping leaves one such file: the disk or the address space is full.",
        strictness="heuristic",
        level="quick",
        repair="remove-empty-file",
        reference="4.6",
        fault_class="I4",
    ),
    Rule(
        id=RuleName.INDEX_NOT_FULL,
        severity=INFO,
        template=(
            "the index file has {entry_count:,} of {expected.entry_count:entry} and is not the last file"
        ),
        why=(
            "A broker creates a new file only when the last one is full. The file names are out of order, or "
            "the clock went back."
        ),
        strictness="strict",
        level="quick",
        reference="4.6, 9.4 I15",
        fault_class="I9",
    ),
    Rule(
        id=RuleName.INDEX_FILE_ORDER,
        severity=WARNING,
        template=(
            "the index file begins at {begin_offset}, before the end of the previous file "
            "({previous_end_offset})"
        ),
        why=(
            "Brokers take the order of names for the order of contents, and the last name for the newest "
            "file. A name is local time: when the clock goes back, or summer time ends, a newer file gets an "
            "older name."
        ),
        strictness="heuristic",
        level="quick",
        repair="rebuild-index",
        reference="4.6, 9.4 I16",
        fault_class="I9",
    ),
    Rule(
        id=RuleName.INDEX_FIRST_TIME,
        severity=INFO,
        template=(
            "entry 1 has timeDiff {value}, which does not follow from the previous file (expected "
            "{expected.value})"
        ),
        why="The first timeDiff of a continuation file counts from the end of the previous file.",
        strictness="heuristic",
        level="cross",
        reference="4.4",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_FIRST_TIME_WRONG,
        severity=WARNING,
        template="entry 1 has timeDiff {value}; expected {expected.value}: {reason}",
        why="Queries with a time window miss the record, because readers compute another store time for it.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 4.6",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_COUNT_MIXED,
        severity=INFO,
        template="hashSlotCount is {hash_slot_count}, between {slot_count:used slot} and {entry_count:entry}",
        why=(
            "A broker up to 4.7.0, where the field counts entries, began the file, and one from 4.7.1 on, "
            "where it counts used slots, continued it. Otherwise the count was changed. No broker relies on "
            "it."
        ),
        strictness="dialect",
        level="cross",
        repair=None,
        reference="4.2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_COUNT_KIND,
        severity=WARNING,
        template=(
            "hashSlotCount is {hash_slot_count}, for {slot_count:used slot} and {entry_count:entry}; the "
            "other files count differently"
        ),
        why=(
            "Up to 4.7.0 hashSlotCount counts entries, from 4.7.1 on used slots. The files before and after "
            "this one show that the broker was not upgraded here. No broker relies on the field."
        ),
        strictness="dialect",
        level="cross",
        repair="rewrite-index-header",
        reference="4.2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_CHAINS_NOT_WALKED,
        severity=INFO,
        template=(
            "{slot_count:damaged chain} {slot_count?holds|hold} more entries than the check followed; there "
            "may be more cycles and orphans"
        ),
        why="The walk of damaged chains has a limit, so that a check of hostile files ends.",
        strictness="heuristic",
        level="cross",
        reference="4.7",
    ),
    Rule(
        id=RuleName.INDEX_HASH_SHARED,
        severity=INFO,
        template=(
            "different keys share {shared_count:,} of {looked_count:hash} checked that have several entries, "
            "for example {key} and {other_key} ({hash}); the file has {distinct_count:hash}"
        ),
        why=(
            "An entry holds 31 bits of its key. A broker answers a query by key with every record of that "
            "hash and leaves it to the client to drop records with other keys. Older clients do not drop "
            "them."
        ),
        strictness="heuristic",
        level="cross",
        reference="4.3, 4.7",
        fault_class="I5",
    ),
    Rule(
        id=RuleName.INDEX_SLOTS_SKEWED,
        severity=INFO,
        template=(
            "{how}{used_count:,} of {slot_count:slot} {used_count?is|are} used; {entry_count:entry} with "
            "different keys would use about {expected.used_count:,}"
        ),
        why=(
            "Most messages carry the same few keys, or keys with similar hashes. Chains are longer, and "
            "queries slower, than the file size suggests."
        ),
        strictness="heuristic",
        level="cross",
        reference="4.1, 4.3",
        fault_class="I11",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_LONG,
        severity=INFO,
        template=(
            "the chain of slot {slot} has {how}{entry_count:entry} (mean: {expected.entry_count:,}); "
            "{how}{hash_entry_count:,} of them {hash_entry_count?has|have} the key {key}"
        ),
        why=(
            "A query for a key of this slot walks the chain to its end, or until it has enough results. A "
            "key that most messages carry does not help a search."
        ),
        strictness="heuristic",
        level="cross",
        reference="4.3, 4.7",
        fault_class="I11",
    ),
    Rule(
        id=RuleName.INDEX_NAME_TIME,
        severity=INFO,
        template=(
            "the file's name gives {name_datetime}, which is {side} than its contents in any time zone "
            "({begin_timestamp} to {end_timestamp})"
        ),
        why=(
            "A broker names an index file by its local time when it puts the first entry. A later name is "
            "harmless if the file was rebuilt, renamed or copied. An earlier name means that the clock was "
            "wrong, or that the file has the name of another."
        ),
        strictness="heuristic",
        level="quick",
        reference="4.6, 9.4 I16",
        fault_class="I9",
    ),
)
