"""The real broker's code for every oracle test: there, or the tests are skipped with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from rocketfsck.formats.dialect import ALL_VERSION_NAMES

from tests.oracle.broker import ASKED
from tests.oracle.jvm import Harness, available

Needs = Callable[..., None]
"""Called with a version, and with the harness that it is to run in, where that is not the store's."""


@pytest.fixture(scope="session")
def needs_broker() -> Needs:
    """Skips where a version cannot be run; with ROCKETFSCK_ORACLE=required that is a failure."""

    def needs(version: str, harness: Harness = "store") -> None:
        if ASKED and version not in ASKED:
            pytest.skip(f"oracle skipped: only {', '.join(ASKED)} was asked for")
        reason = available(version, harness)
        if reason is None:
            return
        if os.environ.get("ROCKETFSCK_ORACLE") == "required":
            pytest.fail(f"the oracle was asked for: {reason}")
        pytest.skip(f"oracle skipped: {reason}")

    return needs


@pytest.fixture(autouse=True)
def version_in_reports(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """Says in a report for JUnit whose code a case asks: `tests.trust.oracle` counts by version."""
    record_property("version", version_of(getattr(request.node, "callspec", None)))


def version_of(spec: object) -> str:
    """The broker's version among the parameters of a case; "" where it has none, or several."""
    params: Mapping[str, object] = getattr(spec, "params", {})
    for value in params.values():
        words = value if isinstance(value, tuple) else (getattr(value, "version", None), value)
        found = [word for word in words if word in ALL_VERSION_NAMES]
        if found:
            return str(found[-1])
    names = [str(value).partition("-")[0] for value in params.values()]
    return next((name for name in names if name in ALL_VERSION_NAMES), "")
