"""Rules CF: JSON files, and their agreement with the queues (reference 1.6, 1.8.3, 9.6)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.CONFIG_LOST,
        severity=Severity.ERROR,
        template="{file} cannot be parsed at byte {start} ({reason}), and there is no sound .bak",
        why=(
            "The broker starts without this file, or not at all. Topics, subscription groups or consumer "
            "offsets are gone, so consumers get messages again or skip them."
        ),
        strictness="strict",
        level="quick",
        repair="restore-config",
        reference="1.6.3",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_FALLS_BACK,
        severity=Severity.WARNING,
        template="{file} cannot be parsed at byte {start} ({reason}); the broker falls back to its .bak",
        why="The .bak is the state before the last write, so it is slightly older.",
        strictness="strict",
        level="quick",
        repair="restore-config",
        reference="1.6.3",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_TRAILING_BYTES,
        severity=Severity.WARNING,
        template=(
            "{file} is sound up to byte {start}; {extra_byte_count:byte} {extra_byte_count?follows|follow}"
        ),
        why=(
            "A shorter text was written over a longer one, and the rest stayed. The broker fails to parse "
            "the file and falls back to the .bak, although cutting the rest would lose nothing."
        ),
        strictness="strict",
        level="quick",
        repair="cut-config",
        reference="1.6.2",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_MISSING,
        severity=Severity.WARNING,
        template="{file} is missing but has a .bak: the broker falls back to the .bak{pending}",
        why=(
            "Brokers up to 5.0 delete the file before they rename the new one. A crash between the two "
            "leaves only .bak and .tmp."
        ),
        strictness="dialect",
        level="quick",
        repair="restore-config",
        reference="1.6.2",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_BACKUP_DAMAGED,
        severity=Severity.INFO,
        template="{file} cannot be parsed at byte {start} ({reason}); the file that it backs up is sound",
        why="A broker reads the .bak only if it cannot read the file itself.",
        strictness="strict",
        level="quick",
        reference="1.6.3",
    ),
    Rule(
        id=RuleName.CONFIG_BACKUP_NEWER,
        severity=Severity.WARNING,
        template=(
            "{file} has dataVersion counter {counter}, its .bak {expected.counter}: the file went back in "
            "time"
        ),
        why="The .bak holds the state before the last write, so it is never newer.",
        strictness="strict",
        level="quick",
        repair="restore-config",
        reference="1.6.2",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_SHAPE,
        severity=Severity.WARNING,
        template="{file} parses, but {reason}",
        why="The broker's parser makes an empty table from the file, or throws an exception.",
        strictness="strict",
        level="quick",
        repair="restore-config",
        reference="1.6.1",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_UNFINISHED_WRITE,
        severity=Severity.INFO,
        template="{file} is an unfinished write",
        why="A crash left the file; brokers do not read it.",
        strictness="dialect",
        level="quick",
        reference="1.6.2",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_AHEAD,
        severity=Severity.INFO,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which ends at {expected.max_offset}"
        ),
        why=(
            "Such an offset may be intended (an offset set by hand, a queue that started again). The broker "
            "tells the consumer that its offset is beyond the end, and the consumer starts over where its "
            "policy says."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
        severity=Severity.WARNING,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which lost units and ends at "
            "{expected.max_offset}"
        ),
        why=(
            "The queue was longer. New messages get offsets that the group has already passed, so the group "
            "never consumes them."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="9.6",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_BEHIND,
        severity=Severity.INFO,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which begins at {expected.min_offset}"
        ),
        why="The messages in between expired before the group consumed them.",
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_UNKNOWN_QUEUE,
        severity=Severity.INFO,
        template="group {group} has offsets in {topic}, but this store has no such topic or queue",
        why="The topic was deleted, or never received a message.",
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_NEGATIVE,
        severity=Severity.WARNING,
        template="group {group} has the negative offset {offset} in {topic}-{queue_id}",
        why="Consumer offsets are never negative.",
        strictness="strict",
        level="quick",
        reference="9.6",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.QUEUE_WITHOUT_TOPIC,
        severity=Severity.INFO,
        template="{topic} has {queue_count:queue} but is not in topics.json",
        why=(
            "System topics and deleted topics are not in that file. If automatic creation is off, brokers "
            "refuse messages to such a topic."
        ),
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.QUEUE_BEYOND_TOPIC,
        severity=Severity.INFO,
        template="{topic}-{queue_id} exists, but topics.json has {expected.queue_count:queue} for the topic",
        why="The number of queues was reduced. Clients no longer ask for this queue.",
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.TOPIC_WITHOUT_QUEUE,
        severity=Severity.INFO,
        template="{topic_count:topic} of topics.json {topic_count?has|have} no consume queue ({topics})",
        why="The topics never received a message, or their queues were deleted.",
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.TOPICS_GONE,
        severity=Severity.WARNING,
        template=(
            "{file} and its .bak are missing; {topic_count:topic} {topic_count?has|have} queues ({topics})"
        ),
        why=(
            "A broker that starts in this state knows none of these topics. Clients get an error until "
            "somebody creates the topics again, with the same number of queues. Other files in config/ show "
            "that a broker kept its topics here: brokers write topics.json before they accept the first "
            "message."
        ),
        strictness="heuristic",
        level="quick",
        repair=None,
        reference="1.6",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.GHOST_QUEUE,
        severity=Severity.WARNING,
        template=(
            "{topic}-{queue_id} is not in topics.json, and its {unit_count:unit} {unit_count?refers|refer} "
            "to no message in the commit log"
        ),
        why=(
            "The queue belongs to a deleted topic. If the topic is created again, its messages continue the "
            "old offsets here but not on the other replicas."
        ),
        strictness="heuristic",
        level="cross",
        repair="remove-ghost-queue",
        reference="9.6",
        fault_class="Q8",
    ),
    Rule(
        id=RuleName.DELAY_OFFSET_RANGE,
        severity=Severity.WARNING,
        template=(
            "delay level {level} has offset {offset}, outside {expected.min_offset} to {expected.max_offset} "
            "of SCHEDULE_TOPIC_XXXX-{queue_id}"
        ),
        why=(
            "A broker would deliver delayed messages again or never. Brokers from 4.9 on correct the offset "
            "when they start."
        ),
        strictness="heuristic",
        level="cross",
        repair="set-delay-offset",
        reference="1.6.3",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.DELAY_LEVEL_UNKNOWN,
        severity=Severity.INFO,
        template=(
            "delayOffset.json has level {level}, but there {expected.level_count?is|are} "
            "{expected.level_count:level}"
        ),
        why="The setting messageDelayLevel was changed. Brokers do not deliver messages of that level.",
        strictness="config",
        level="quick",
        reference="2.11",
    ),
    Rule(
        id=RuleName.TIMER_CHECK_LENGTH,
        severity=Severity.WARNING,
        template="{file} has {size:byte}, not {expected.size:,}",
        why="The file is one page; a broker maps it at full size.",
        strictness="strict",
        level="quick",
        repair="reset-timer",
        reference="1.8.3",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_CHECK_RANGE,
        severity=Severity.WARNING,
        template="the timer checkpoint's {field} is {value}, beyond {expected.limit}",
        why=(
            "The timer checkpoint names timer data that does not exist: timed messages are delivered again, "
            "or wait forever."
        ),
        strictness="heuristic",
        level="cross",
        repair="reset-timer",
        reference="1.8.3",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.LMQ_OFFSET_PLACE,
        severity=Severity.INFO,
        template="group {group} has its offset in the light queue {topic} in {file}",
        why="Offsets of queues %LMQ%... belong in lmqConsumerOffset.json.",
        strictness="dialect",
        level="quick",
        reference="9.6",
    ),
)
