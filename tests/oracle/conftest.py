"""The real broker's code for every oracle test: there, or the tests are skipped with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.oracle.broker import ASKED, available

Needs = Callable[[str], None]


@pytest.fixture(scope="session")
def needs_broker() -> Needs:
    """Skips where a version cannot be run; with ROCKETFSCK_ORACLE=required that is a failure."""

    def needs(version: str) -> None:
        if ASKED and version not in ASKED:
            pytest.skip(f"oracle skipped: only {', '.join(ASKED)} was asked for")
        reason = available(version)
        if reason is None:
            return
        if os.environ.get("ROCKETFSCK_ORACLE") == "required":
            pytest.fail(f"the oracle was asked for: {reason}")
        pytest.skip(f"oracle skipped: {reason}")

    return needs
