"""For those who write a broker, a client or a tool, in any language: is what your program wrote a store?

    assert_conformant(directory)      AssertionError with every breach, its place and what it means
    rocketfsck.testing.strategies     Hypothesis: messages, geometries, versions, stores, damages
    rocketfsck.testing.plugin         pytest fixtures; loaded by itself where rocketfsck is installed

`assert_conformant` needs neither pytest nor Hypothesis; install the extra `testing` for the rest. Names are
imported when they are used, for pytest loads the plugin in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketfsck.testing.conformance import NotConformantError as NotConformantError
    from rocketfsck.testing.conformance import assert_conformant as assert_conformant
    from rocketfsck.testing.conformance import breaches as breaches
    from rocketfsck.testing.planned import PlannedStore as PlannedStore

_HOMES = {
    "NotConformantError": "conformance",
    "PlannedStore": "planned",
    "assert_conformant": "conformance",
    "breaches": "conformance",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
