"""Rules TM on the timer wheel, the timer log and the messages that they hold (reference 1.8)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.TIMER_WHEEL_LENGTH,
        severity=Severity.ERROR,
        template="{file} has {size:byte}, not {expected.size:,}: a broker does not start with it",
        why=(
            "The wheel has a fixed number of slots. A broker refuses a wheel of another length, unless the "
            "file is empty: then the broker creates a new wheel."
        ),
        strictness="strict",
        level="quick",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_NUMBER,
        severity=Severity.WARNING,
        template=(
            "slot {slot} of the timer wheel holds slotTime {slot_time}, which belongs to slot {expected.slot}"
        ),
        why=(
            "A broker treats such a slot as empty. The broker does not deliver its messages, unless a start "
            "finds their units in the last files of the timer log."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_POSITION,
        severity=Severity.WARNING,
        template="slot {slot} of the timer wheel has {field} {value}; the timer log gives {expected.value}",
        why=(
            "A broker delivers a slot's messages from lastPos backwards. A start corrects lastPos from the "
            "last files of the timer log, not from older ones."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_COUNT,
        severity=Severity.WARNING,
        template=(
            "slot {slot} of the timer wheel has a count of {count:,}; the timer log has "
            "{expected.count:message} for it"
        ),
        why="Units were lost or changed. A crash leaves a count that is too low, never one that is too high.",
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_COUNT_LOW,
        severity=Severity.INFO,
        template=(
            "slot {slot} of the timer wheel has a count of {count:,}; the timer log has "
            "{expected.count:message} for it"
        ),
        why=(
            "A start after a crash corrects the slots, but not their counts. Only metrics use the counts; "
            "the broker delivers every message."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_MISSING,
        severity=Severity.WARNING,
        template=(
            "the timer wheel lacks {count:message} due at {deliver_timestamp}: slot {slot} holds another time"
        ),
        why=(
            "A broker delivers only messages that the wheel leads to, unless a start finds the units in the "
            "last files of the timer log."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_FILE_MISSING,
        severity=Severity.ERROR,
        template="{file} is missing: {outcome}",
        why=(
            "A broker with timers has a wheel, a timer log without gaps and config/timercheck, or has them "
            "in rocksdbstore/, and creates empty ones where one is missing. Waiting messages are then lost, "
            "or the broker delivers messages again."
        ),
        strictness="strict",
        level="quick",
        reference="1.8",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_LOG_GAP,
        severity=Severity.ERROR,
        template="{byte_count:byte} of the timer log {byte_count?is|are} {what}, although more follows",
        why=(
            "A start that reads such bytes cuts the timer log there. The broker schedules the messages after "
            "them again from the timer topic, as far as the commit log still has them."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_LINK,
        severity=Severity.WARNING,
        template=(
            "the timer unit at {unit_pos} has prevPos {prev_pos}; the unit before it in slotTime {slot_time} "
            "is at {expected.prev_pos}"
        ),
        why=(
            "A broker finds a slot's units from the newest to the oldest by prevPos. With a wrong link it "
            "does not deliver older messages of the slot, or delivers others."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_RECORD,
        severity=Severity.ERROR,
        template=(
            "the timer unit at {unit_pos}, due at {deliver_timestamp}, leads to {physical_offset}: {reason}"
        ),
        why=(
            "The broker cannot deliver the message. Brokers read the place again and again, or skip it "
            "(timerSkipUnknownError)."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_MESSAGE_EXPIRED,
        severity=Severity.INFO,
        template=(
            "{unit_count:timer unit} {unit_count?leads|lead} to {unit_count?a message that|messages that} "
            "expired before {unit_count?it was|they were} due: the commit log begins at {log_start_offset}"
        ),
        why=(
            "The setting fileReservedTime is shorter than the delay. Brokers pass over these units; nobody "
            "gets the messages."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.8.2",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_CONTENT,
        severity=Severity.ERROR,
        template="the timer unit at {unit_pos} has {field} {value}; its message gives {expected.value}",
        why=(
            "The broker delivers the message at another time than its producer set, or does not carry out a "
            "deletion."
        ),
        strictness="strict",
        level="full",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_NOT_SCHEDULED,
        severity=Severity.ERROR,
        template=(
            "the message at {physical_offset} is due at {deliver_timestamp}, but the timer log has no unit "
            "for it"
        ),
        why=(
            "The file config/timercheck says that the timer topic was read beyond this message. Without a "
            "unit the broker never delivers it."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.3",
        fault_class="H5",
    ),
)
