"""Findings that are known and not corrected yet: each with its reason, so that a run is judged by the
others."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.hostile.fuzz.laws import Violation


class Known(NamedTuple):
    """A law and patterns of command and detail; `reason` names what is known."""

    law: str
    command: str
    detail: str
    reason: str


KNOWN: tuple[Known, ...] = (
    Known("refused", "apply", "apply with --in-place|add --outside", "links: the refusal names the way"),
    Known("refused", "apply", "leaves links alone|leads here|links are not moved", "links are left alone"),
    Known("refused", "apply", "lock: has more than", "a lock that no broker made: the refusal says so"),
    Known("plan-again", "plan", "^finish-recovery after", "a recovery is finished once the log is settled"),
    Known(
        "plan-again",
        "plan",
        "^(rebuild|cut)-queue after .*(salvage|cut)-log",
        "queues are judged by the log: "
        "where both are damaged, what the repaired log says of a queue is planned once it is there",
    ),
    Known(
        "plan-again",
        "plan",
        "^set-physical-offset after .*rebuild-queue",
        "a unit confirms where a record belongs once its damaged queue is rebuilt",
    ),
    Known(
        "plan-again",
        "plan",
        "^resize-segment after .*zero-stale-units",
        "what is after a file's length can be cut off once the units there are zeros",
    ),
    Known(
        "check-again",
        "check",
        r"^apply \d, check \d: .*'ST003'",
        "a repair can take the only trait of newer "
        "versions, made by damage: then older ones are asked about a link, too",
    ),
    Known(
        "control",
        "check",
        r"of what write made: 4 \['CL012'\]",
        "a producer may send NULs in properties, and many of them look like a torn write",
    ),
    Known("refused", "apply", "exit status 4", "tried, found not to be as promised, and not published"),
    Known(
        "status", "plan", "inside the store that is read", "a link in the store leads to where the plan goes"
    ),
    Known(
        "start",
        "apply",
        r"^unindexed \d+ -> \d+ by (?!.*index)",
        "where the index is gone, a start adds entries only of what it dispatches; repaired queues and a "
        "repaired log need no dispatch",
    ),
    Known(
        "start",
        "apply",
        "^unreachable 0 -> 1 by finish-recovery, rebuild-queue$",
        "a record with a damaged queueId looks like one of a deleted queue, which only a start after a crash "
        "makes again",
    ),
    Known("start", "apply", "by move-stray", "an index that is set aside and not built again"),
)


def known_reason(violation: Violation) -> str | None:
    """Why this finding is known; None if it is not."""
    for row in KNOWN:
        if (
            row.law == violation.law
            and re.search(row.command, violation.command)
            and re.search(row.detail, violation.detail)
        ):
            return row.reason
    return None
