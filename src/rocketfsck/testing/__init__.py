"""For those who write a broker, a client or a tool, in any language: is what your program wrote a store?

    assert_conformant(directory)      AssertionError with every breach, its place and what it means
    rocketfsck.testing.strategies     Hypothesis: messages, geometries, versions, stores, damages
    rocketfsck.testing.plugin         pytest fixtures; loaded by itself where rocketfsck is installed

`assert_conformant` needs neither pytest nor Hypothesis; install the extra `testing` for the rest. Names are
imported when they are used, for pytest loads the plugin in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.testing.conformance import NotConformantError as NotConformantError
    from rocketfsck.testing.conformance import PlannedStore as PlannedStore
    from rocketfsck.testing.conformance import assert_conformant as assert_conformant
    from rocketfsck.testing.conformance import breaches as breaches

__getattr__ = late_names(
    __name__, {"conformance": "NotConformantError PlannedStore assert_conformant breaches"}
)
