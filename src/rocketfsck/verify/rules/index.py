"""Rules IX: index headers, slots, entries and chains (reference 4, 9.4)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.INDEX_LENGTH,
        severity=ERROR,
        template="the index file has {size} bytes, expected {expected.size}: {reason}",
        why=(
            "A broker maps the full length, which fills a short file with zeros, and does not look: keys in "
            "the part that is gone are found no more, new ones are put behind a hole."
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
        why="Entries at or behind indexCount are not looked at and will be overwritten.",
        strictness="strict",
        level="quick",
        repair="rebuild-index",
        reference="4.2",
        fault_class="I6",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_COUNT,
        severity=WARNING,
        template="hashSlotCount is {hash_slot_count}; {slot_count} slots are used and {entry_count} entries",
        why=(
            "Up to 4.7.0 it counts entries, from 4.7.1 on used slots; a file written by both lies between. "
            "No broker decides by it."
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
        template="header field {field} is {value}, expected {expected.value}",
        why="Queries by time skip the file by these; building skips every record below endPhyOffset.",
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
        why="A broker takes the slot for empty: the chain's keys are not found.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I3",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_HEAD,
        severity=ERROR,
        template="slot {slot} holds {value}, expected {expected.value} ({reason})",
        why="A slot holds the newest entry of its chain; entries in front of the one it holds are not found.",
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
        why="Readers stop here: the older keys of the chain are not found.",
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
            "the chain of slot {slot} comes back from entry {entry} to {value} ({length} entries in the "
            "circle)"
        ),
        why=(
            "A broker that asks for a key of this slot goes round until it has found enough, or for ever "
            "with the index locked."
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
        template="entry {entry} names the later entry {value} as the previous one, expected {expected.value}",
        why="Chains lead from newer to older entries only.",
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
        why="Readers stop here: the older keys of the chain are not found.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_CROSS_LINK,
        severity=ERROR,
        template="entry {entry} of slot {slot} leads to entry {value}, which is of slot {other_slot}",
        why="The chain runs into another slot's: its own older keys are not found.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I5",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_CHAIN_SKIPS,
        severity=ERROR,
        template="entry {entry} leads to {value}, past {expected.value} of the same slot",
        why="The entries between the two are reached by no chain.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I6",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_ORPHAN,
        severity=ERROR,
        template="{entry_count} entries are reached from no slot, the first is {entry} (slot {slot})",
        why="Their keys are not found.",
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
        why="The hash is an absolute value.",
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
            "entry {entry} points to {physical_offset}, before the entry in front of it ({previous_offset})"
        ),
        why="Entries are put in the log's order.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="9.4 I11",
        fault_class="I3",
    ),
    Rule(
        id=RuleName.INDEX_ENTRY_BEHIND_COUNT,
        severity=WARNING,
        template="{entry_count} entries at or behind indexCount are not zero, the first is {entry}",
        why="A put whose header did not reach the disk, or a header that went back.",
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
        why="Entry 0 is never used.",
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
        why="Made in advance of the first put; normal for the newest file.",
        strictness="heuristic",
        level="quick",
        reference="4.2",
        fault_class="I4",
    ),
    Rule(
        id=RuleName.INDEX_EMPTY_MANY,
        severity=WARNING,
        template="{file_count} index files hold no entry",
        why="Each failed mapping leaves one: a disk or an address space that is full.",
        strictness="heuristic",
        level="quick",
        repair="remove-empty-file",
        reference="4.6",
        fault_class="I4",
    ),
    Rule(
        id=RuleName.INDEX_NOT_FULL,
        severity=INFO,
        template="the index file has {entry_count} of {expected.entry_count} entries and is not the last",
        why=(
            "A new file is made only when the last is full: file names are out of order, or the clock "
            "stepped back."
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
            "the index file begins at {begin_offset}, before the end of the file in front of it "
            "({previous_end_offset})"
        ),
        why="Brokers take the order of names for the order of contents, the last for the newest.",
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
            "entry 1 has timeDiff {value}, which the file in front does not explain (expected "
            "{expected.value})"
        ),
        why="The first timeDiff of a continuation file is counted from the end of the file in front.",
        strictness="heuristic",
        level="cross",
        reference="4.4",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_FIRST_TIME_WRONG,
        severity=WARNING,
        template="entry 1 has timeDiff {value}, expected {expected.value}: {reason}",
        why="Queries with a time window miss the record: readers take it for stored at another time.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 4.6",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_SLOT_COUNT_MIXED,
        severity=INFO,
        template=(
            "hashSlotCount is {hash_slot_count}, between {slot_count} used slots and {entry_count} entries"
        ),
        why=(
            "A file that was begun up to 4.7.0, where it counts entries, and continued from 4.7.1 on, where "
            "it counts used slots; or a count that was changed. No broker decides by it."
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
            "hashSlotCount is {hash_slot_count}, for {slot_count} used slots and {entry_count} entries; the "
            "other files count otherwise"
        ),
        why=(
            "Up to 4.7.0 it counts entries, from 4.7.1 on used slots. By the files in front of this one and "
            "behind it the broker was not upgraded here. No broker decides by it."
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
            "{slot_count} damaged chains hold more entries than were walked; cycles and orphans may be more"
        ),
        why="The walk of damaged chains has a limit, so that hostile files end.",
        strictness="heuristic",
        level="cross",
        reference="4.7",
    ),
    Rule(
        id=RuleName.INDEX_HASH_SHARED,
        severity=INFO,
        template=(
            "{shared_count} of {looked_count} hashes with several entries that were looked at are of "
            "different keys, like {key} and {other_key} ({hash}); {distinct_count} hashes in all"
        ),
        why=(
            "An entry holds 31 bits of its key. A broker answers a query by key with every record of that "
            "hash, and leaves it to the client to drop those that have another key: older clients do not."
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
            "{how}{used_count} of {slot_count} slots are used, where {entry_count} entries of keys that "
            "differ would use about {expected.used_count}"
        ),
        why=(
            "Most messages carry the same few keys, or keys whose hashes are close to each other: chains are "
            "longer, and queries slower, than the file's size makes them."
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
            "the chain of slot {slot} has {how}{entry_count} entries, {expected.entry_count} is the mean; "
            "{how}{hash_entry_count} of them are of the key {key}"
        ),
        why=(
            "A query for a key of this slot walks the chain to its end or until it has enough. One key that "
            "most messages carry is no use as a key."
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
            "the name says that the file was made at {name_time}: in any time zone {side} than what is in "
            "it, {begin_timestamp} to {end_timestamp}"
        ),
        why=(
            "A file is named by the broker's local time when its first entry is put. A later name: built "
            "again from an old log, renamed, or copied. An earlier one: a clock that was wrong, or another's "
            "name."
        ),
        strictness="heuristic",
        level="quick",
        reference="4.6, 9.4 I16",
        fault_class="I9",
    ),
)
