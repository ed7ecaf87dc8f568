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
            "The broker starts without it, or not at all: topics, subscription groups or consumer offsets "
            "are gone and messages are consumed again or skipped."
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
        why="The .bak is the state before the last write: a little of it is older.",
        strictness="strict",
        level="quick",
        repair="restore-config",
        reference="1.6.3",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_TRAILING_BYTES,
        severity=Severity.WARNING,
        template="{file} is sound up to byte {start}, but {extra_size} bytes follow",
        why=(
            "A shorter text was written over a longer one and the rest stayed. The broker fails to parse it"
            " and falls back to the .bak, although cutting the rest would lose nothing."
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
        template="{file} is not there, but its .bak is: the broker falls back to that{pending}",
        why=(
            "Brokers up to 5.0 delete the file before they rename the new one; a crash between the two "
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
        template="{file} cannot be parsed at byte {start} ({reason}); the file itself is sound",
        why="It is only read when the file itself is not.",
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
        why="The broker's parser makes an empty table of it, or throws.",
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
        why="A crash left it; brokers do not read it.",
        strictness="dialect",
        level="quick",
        reference="1.6.2",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_AHEAD,
        severity=Severity.INFO,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, whose end is {expected.max_offset}"
        ),
        why=(
            "By itself this may be meant (an offset set by hand, a queue that started anew). The consumer "
            "is told that its offset is beyond the end and starts over where its policy says."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
        severity=Severity.WARNING,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which ends at {expected.max_offset} "
            "and lost units"
        ),
        why=(
            "The queue was longer: new messages get offsets that the group has behind it, and are never "
            "consumed."
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
        template="group {group} has offsets in {topic}, which is neither a topic nor a queue here",
        why="The topic was deleted, or never received a message.",
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_NEGATIVE,
        severity=Severity.WARNING,
        template="group {group} has offset {offset} in {topic}-{queue_id}",
        why="Offsets are never negative.",
        strictness="strict",
        level="quick",
        reference="9.6",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.QUEUE_WITHOUT_TOPIC,
        severity=Severity.INFO,
        template="{topic} has {queue_count} queues but is not in topics.json",
        why=(
            "System topics, and topics that were deleted, are not. If automatic creation is off, messages "
            "to it are refused."
        ),
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.QUEUE_BEYOND_TOPIC,
        severity=Severity.INFO,
        template="{topic}-{queue_id} exists, but topics.json has {expected.queue_count} queues for the topic",
        why="The topic was made smaller. Clients do not ask for the queue any more.",
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.TOPIC_WITHOUT_QUEUE,
        severity=Severity.INFO,
        template="{topic_count} topics of topics.json have no consume queue ({topics})",
        why="They never received a message, or their queues were deleted.",
        strictness="heuristic",
        level="quick",
        reference="9.6",
    ),
    Rule(
        id=RuleName.TOPICS_GONE,
        severity=Severity.WARNING,
        template="{file} is gone, and so is its .bak; {topic_count} topics have queues ({topics})",
        why=(
            "A broker that starts so knows none of these topics: clients are told that there is none, until "
            "somebody creates them again, with the same number of queues. Other files in config/ show that "
            "a broker kept its topics there: it writes them down before it takes the first message."
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
            "{topic}-{queue_id} is not in topics.json, and none of its {unit_count} units is in the commit "
            "log"
        ),
        why=(
            "The queue of a deleted topic. If the topic comes back, its messages continue the old offsets "
            "here but not on the other replicas."
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
            "delay level {level} has offset {offset}, outside {expected.min_offset} to "
            "{expected.max_offset} of SCHEDULE_TOPIC_XXXX-{queue_id}"
        ),
        why=(
            "Delayed messages would be delivered again or never. Brokers from 4.9 on correct it when they "
            "start."
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
        template="delayOffset.json has level {level}, but there are {expected.level_count} levels",
        why="messageDelayLevel was changed. Messages of that level are not delivered.",
        strictness="config",
        level="quick",
        reference="2.11",
    ),
    Rule(
        id=RuleName.TIMER_CHECK_LENGTH,
        severity=Severity.WARNING,
        template="{file} has {size} bytes, not {expected.size}",
        why="It is one page; a broker maps it at full size.",
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
            "It speaks of timer data that is not there: timed messages are delivered again, or wait for ever."
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
        why="Offsets of queues %LMQ%... belong into lmqConsumerOffset.json.",
        strictness="dialect",
        level="quick",
        reference="9.6",
    ),
)
