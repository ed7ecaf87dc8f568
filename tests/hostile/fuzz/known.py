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
    Known("refused", "apply", "apply with --in-place", "links in a store: the refusal names the way"),
    Known("refused", "apply", "is a FIFO|Illegal seek|move it away|levels of symbolic", "no regular files"),
    Known("refused", "apply", "leaves links alone|leads here|links are not moved", "links are left alone"),
    Known("crash", "compare", "describe_side: StopIteration", "compare with a store without a log"),
    Known("hang", "case", "repair/ledger", "the ledger reads the holes of a queue file"),
    Known("refused", "apply", "exists, so that|File exists|Not a directory|exit status 4", "looked into"),
    Known("plan-again", "plan", "after move-stray", "looked into"),
    Known("start", "apply", "by move-stray", "looked into"),
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
