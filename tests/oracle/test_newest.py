"""What is said of a new version of the broker, from the list of releases and from what its code has."""

from __future__ import annotations

import pytest

from tests.oracle import newest
from tests.oracle.broker import ASKED, VERSIONS, versions_of
from tests.oracle.conftest import Needs
from tests.oracle.newest import Change, changes, draft_row, facts_of, releases, said

pytestmark = pytest.mark.oracle

LISTED = """<metadata><versioning><latest>5.10.0</latest><versions>
<version>4.0.0-incubating</version><version>5.10.0</version><version>5.0.0-ALPHA</version>
<version>5.9.1</version></versions></versioning></metadata>"""

BEFORE = """class\ta.Old\t
constant\ta.Pid.PID\t17
constant\ta.Sys.FLAG\t4
path\tPaths.getLog\tROOT/commitlog
setting\tConfig.limit\t10
"""
AFTER = """constant\ta.Pid.PID\t18
constant\ta.Sys.FLAG\t8
path\tPaths.getLog\tROOT/commitlog
path\tPaths.getNew\tROOT/newStore
setting\tConfig.limit\t10
setting\tConfig.more\ttrue
"""


def test_releases_in_their_order() -> None:
    assert releases(LISTED) == ["5.9.1", "5.10.0"]


def test_what_changed() -> None:
    found = changes(facts_of(BEFORE), facts_of(AFTER))
    assert [str(change) for change in found] == [
        "- a.Old",
        "~ a.Sys.FLAG: 4 became 8",
        "+ Paths.getNew = ROOT/newStore",
        "+ Config.more = true",
    ]
    lines = list(said(found))
    assert lines[:2] == ["path: 1 change", "  + Paths.getNew = ROOT/newStore"]
    assert lines[-1] == "unread: 0 changes"
    many = [Change("class", f"a.{number}", None, "") for number in range(newest.SHOWN + 3)]
    assert "  and 3 more" in said(many)


def test_a_draft_has_the_new_files() -> None:
    found = changes(facts_of(BEFORE), facts_of(AFTER))
    assert draft_row("5.10.0", found).startswith('    "5.10.0": {"kept_files": (\'newStore\',),},')
    assert draft_row("5.10.0", []).startswith('    "5.10.0": {},')


def test_the_code_is_read(needs_broker: Needs) -> None:
    version = VERSIONS[-1]
    needs_broker(version)
    found = newest.inventory(version)
    assert found["path", "StorePathConfigHelper.getStorePathIndex"].endswith("/index")
    assert found["setting", "MessageStoreConfig.maxHashSlotNum"] == "5000000"
    assert ("class", "org.apache.rocketmq.store.CommitLog") in found


def test_versions_that_are_asked_for() -> None:
    assert versions_of("4.9.8") == (ASKED or ("4.9.8",))
