"""Rules CF: JSON files, and their agreement with the queues (reference 1.6, 1.8.3, 9.6)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

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
            "Brokers up to 5.0 delete the file before they rename the new one: a crash between the two "
            "leaves only .bak and .tmp. Brokers from 5.4.0 on rename the file to .bak before they write the "
            "new one: a crash between the two leaves only .bak."
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
        why=(
            "The .bak holds the state before the last write, so it is not newer. A slave is the exception: "
            "it takes the file of its master, even one that is older than its own."
        ),
        strictness="config",
        level="quick",
        repair="restore-config",
        reference="1.6.2",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.CONFIG_SHAPE,
        severity=Severity.WARNING,
        template="{file} parses, but {reason}",
        why=(
            "The broker's parser makes an empty table from `null`, and reads the .bak for most other content."
        ),
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
        severity=Severity.WARNING,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which ends at {expected.max_offset}: "
            "the group gets {again_count:message} again, and skips up to {skipped_count:new message}"
        ),
        why=(
            "Brokers give out no message beyond the end of a queue, so the queue was longer, or the offset "
            "is wrong. When the group consumes again, the broker sends the group to the end of the queue: "
            "new messages that arrive before that are skipped. Before 4.9.4 the broker sends the group to "
            "the beginning of a queue that begins at 0."
        ),
        strictness="heuristic",
        level="cross",
        repair="set-offsets",
        reference="9.6",
        fault_class="K6",
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
            "group {group} has offset {offset} in {topic}-{queue_id}, which begins at {expected.min_offset}: "
            "{expired_count:message} expired before the group consumed {expired_count?it|them}"
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
        id=RuleName.CONSUMER_OFFSETS_GONE,
        severity=Severity.WARNING,
        template=(
            "no consumer group has an offset, but {group_count:group} consumed here ({groups}); "
            "{queue_count:queue} {queue_count?has|have} {again_count:message}, which consumers get again "
            "or skip"
        ),
        why=(
            "Brokers write this file every five seconds, and retry topics show which groups consumed. After "
            "a start each consumer begins where its own setting says (by default at the end: what it had not "
            "consumed is skipped) or at the beginning of the queue (everything is consumed again)."
        ),
        strictness="heuristic",
        level="quick",
        repair="restore-config",
        reference="9.6",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSETS_OLDER,
        severity=Severity.WARNING,
        template=(
            "group {group} has lower offsets in {file} than in the .bak: the group gets "
            "{again_count:message} again"
        ),
        why=(
            "The .bak holds the state before the last write, and no group has a higher offset in the file. "
            "An older copy of the file was put here."
        ),
        strictness="heuristic",
        level="cross",
        repair="restore-config",
        reference="9.6",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.CONSUMER_OFFSET_LOOSE,
        severity=Severity.INFO,
        template=(
            "group {group} has offset {offset} in {topic}-{queue_id}, which ends at {expected.max_offset}"
        ),
        why=(
            "This state is normal for a queue that was deleted, a light queue, a static topic, and a slave, "
            "which copies the offsets of its master and the messages separately. For a group that never "
            "consumed here, an operator has set the offset."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.6",
    ),
    Rule(
        id=RuleName.SUBSCRIPTIONS_GONE,
        severity=Severity.WARNING,
        template=(
            "{file} and its .bak are missing; {group_count:group} consumed here ({groups}), "
            "whose settings are lost"
        ),
        why=(
            "The file has the settings of each group: whether the group may consume, how often a message is "
            "tried again, with how many retry queues, and whether in order. A broker makes a group again, "
            "with the default settings, when a client of the group connects; with "
            "autoCreateSubscriptionGroup=false clients get an error until somebody creates the group. Other "
            "settings than the defaults come back with the file of a replica, or with mqadmin updateSubGroup "
            "on a running broker."
        ),
        strictness="heuristic",
        level="quick",
        repair="restore-config",
        reference="1.6",
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
            "{file} is missing or lists no topic; "
            "{topic_count:topic} {topic_count?has|have} queues ({topics})"
        ),
        why=(
            "A broker that starts in this state knows none of these topics. Clients get an error until "
            "somebody creates the topics again, with the same number of queues. Other files in config/, or a "
            "timer wheel, show that a broker kept its topics here: brokers write topics.json before they "
            "accept the first message. A broker takes a file with `{}` or `null` as it is, and asks no .bak."
        ),
        strictness="heuristic",
        level="quick",
        repair="restore-config",
        reference="1.6",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.TOPICS_ELSEWHERE,
        severity=Severity.INFO,
        template="there is no {file}; {topic_count:topic} {topic_count?has|have} queues ({topics})",
        why=(
            "The directory config/ was not copied with the store, or is lost. A broker that starts on the "
            "store as it is knows none of these topics, and no offset of a consumer group."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.6",
    ),
    Rule(
        id=RuleName.TOPICS_FOREIGN,
        severity=Severity.WARNING,
        template="{file} lacks {topic_count} of {expected.topic_count:topic} with queues ({topics})",
        why=(
            "The file lists other topics, which have no queues here: it is another broker's. A broker that "
            "starts in this state does not know the topics of this store. Clients get an error until "
            "somebody creates the topics again, with the same number of queues."
        ),
        strictness="heuristic",
        level="quick",
        reference="1.6",
        fault_class="K5",
    ),
    Rule(
        id=RuleName.TOPIC_NAME_MISSING,
        severity=Severity.ERROR,
        template="{topic} is listed in {file} without its topicName",
        why=(
            "No broker writes a topic without its name: the file was edited. From 5.1.4 on the broker fails "
            "when it registers its topics, and does not start. Brokers before send name servers a topic that "
            "has no name, and clients do not find its queues."
        ),
        strictness="strict",
        level="quick",
        repair="name-topics",
        reference="1.6",
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
            "delay level {level} has offset {offset} in SCHEDULE_TOPIC_XXXX-{queue_id}, which ends at "
            "{expected.max_offset}"
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
        id=RuleName.DELAYED_EXPIRED,
        severity=Severity.INFO,
        template=(
            "delay level {level} has offset {offset} in SCHEDULE_TOPIC_XXXX-{queue_id}, which begins at "
            "{expected.min_offset}"
        ),
        why=(
            "The delayed messages in between expired before they were due. Brokers go on with the first that "
            "is left."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.11",
    ),
    Rule(
        id=RuleName.DELAY_OFFSET_GONE,
        severity=Severity.WARNING,
        template=(
            "delay level {level} has no offset in {file}: a broker delivers {again_count:message} again that "
            "{again_count?was|were} due long before the last record"
        ),
        why=(
            "Brokers write this file every ten seconds. A level without an offset begins at its first "
            "message, and what was delivered already is delivered again."
        ),
        strictness="heuristic",
        level="cross",
        repair="set-delay-offset",
        reference="1.6.3",
        fault_class="K6",
    ),
    Rule(
        id=RuleName.DELAY_OFFSET_LATE,
        severity=Severity.WARNING,
        template=(
            "delay level {level} has offset {offset}, but the next {again_count:message} "
            "{again_count?was|were} due long before the last record: a broker delivers "
            "{again_count?it|them} now, perhaps again"
        ),
        why=(
            "A running broker delivers within seconds. Either the file is old, so that messages are "
            "delivered again, or the broker had stopped delivering this level."
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
