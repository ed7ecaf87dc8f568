"""Which of a check's diagnoses are urgent: those whose damage a predicted start of the broker makes worse.

A start that refuses, deletes or cuts takes more than the damage itself has; what is only wrong stays as wrong
as it is. The order is that of what is gone for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketfsck.query.start.model import Start
    from rocketfsck.verify.report import Diagnosis, Report

_HARMS: tuple[tuple[Callable[[Start], object], str], ...] = (
    (lambda start: start.queues_destroyed, "C8"),
    (lambda start: start.losses.cut_record_count, "C1 C2 C3 C4 C5 C10 C7"),
    (lambda start: start.refusals, "C6 Q6 Q10 I10 C7"),
    (lambda start: start.ignored, "C6"),
    (lambda start: start.losses.new_by_queue_count, "Q7 Q1 Q3 Q2 C2 C5"),
    (lambda start: any(queue.reissued_count for queue in start.queues), "Q7 Q3 Q4 C2 C1"),
    (lambda start: any(queue.shifted_count for queue in start.queues), "Q3 Q7 C2"),
    (lambda start: start.dispatch is not None and start.dispatch.skipped, "C2 C5"),
    (lambda start: start.losses.new_by_key_count, "I1 I2 I10"),
    (lambda start: start.index.blocked_until_offset is not None, "I2 C1 C2"),
)
"""What a start does, worst first, and the classes of damage that make it do so."""


def urgent_classes(start: Start) -> tuple[str, ...]:
    """Classes of the fault catalogue whose damage this start makes worse, the most urgent first."""
    found = [name for does, classes in _HARMS if does(start) for name in classes.split()]
    return tuple(dict.fromkeys(found))


def ranked(report: Report, start: Start) -> Report:
    """The report with its urgent diagnoses in front, the most urgent first; the others keep their order."""
    order = {name: place for place, name in enumerate(urgent_classes(start))}
    diagnoses = sorted(report.diagnoses, key=lambda diagnosis: order.get(diagnosis.fault_class, len(order)))
    return replace(report, diagnoses=tuple(diagnoses))


def urgent(diagnoses: Iterable[Diagnosis], start: Start) -> tuple[Diagnosis, ...]:
    """Those that are urgent, in the order given."""
    classes = urgent_classes(start)
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis.fault_class in classes)
