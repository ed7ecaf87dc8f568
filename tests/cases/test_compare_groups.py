"""Stores of brokers that released 5.5.0 ran as groups, compared.

5.5.0-ha               master, slave    one group, both stopped cleanly
                       master-later     the master alone after that, with more messages: the slave lags
                       slave-alone      the slave as a master of its own after that: it diverged
5.5.0-dledger-three    n0, n1, n2       three nodes of one group, n1 their leader
                       n1-later         n1 and n2 after that, with more messages: n0 lags
                       n0-alone         n0 after that, as a group of its own: it diverged
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.repair.compare.compare import Comparison, compare_stores
from rocketfsck.repair.compare.configs import EntryParting
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity

from tests.conftest import Directory

HA = "5.5.0-ha"
HA_END = 11488
DLEDGER = "5.5.0-dledger-three"
DLEDGER_END = 13395
NODES = {
    HA: ("master", "slave", "master-later", "slave-alone"),
    DLEDGER: ("n0", "n1", "n2", "n1-later", "n0-alone"),
}


@pytest.fixture
def ha(group_dir: Directory) -> Path:
    return group_dir(HA)


@pytest.fixture
def three(group_dir: Directory) -> Path:
    return group_dir(DLEDGER)


def compared(group: Path, a: str, b: str) -> Comparison:
    return compare_stores(open_store(group / a), open_store(group / b))


@pytest.mark.parametrize(("group", "node"), [(group, node) for group in NODES for node in NODES[group]])
def test_nothing_is_wrong_with_a_node(group: str, node: str, group_dir: Directory) -> None:
    report = check_store(open_store(group_dir(group) / node), CheckOptions(level="full"))
    assert report.worst in (None, Severity.INFO), [finding.rule for finding in report.findings]


def test_master_and_slave_agree(ha: Path) -> None:
    comparison = compared(ha, "master", "slave")
    assert comparison.same
    assert (comparison.common, comparison.resume_offset) == ((0, HA_END), HA_END)
    assert comparison.unlike_byte_count == 0


def test_a_slave_lags(ha: Path) -> None:
    comparison = compared(ha, "slave", "master-later")
    assert not comparison.same
    assert not comparison.different_count
    assert (comparison.a.end_offset, comparison.b.end_offset) == (HA_END, 17036)
    assert comparison.resume_offset == HA_END
    assert {lack.side for lack in comparison.lacks} == {"B"}
    assert sum(lack.record_count for lack in comparison.lacks) == 18


def test_a_slave_diverged(ha: Path) -> None:
    comparison = compared(ha, "slave-alone", "master-later")
    assert comparison.different_count == 27
    assert comparison.different[0].physical_offset == HA_END
    assert comparison.resume_offset == HA_END
    counts = dict.fromkeys("AB", 0)
    for lack in comparison.lacks:
        counts[lack.side] += lack.record_count
    assert counts == {"A": 15, "B": 18}


def test_three_nodes_agree(three: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for a, b in combinations(("n0", "n1", "n2"), 2):
        comparison = compared(three, a, b)
        assert comparison.same
        assert comparison.resume_offset == DLEDGER_END
        found = comparison.replication
        assert (found.parting, found.ahead) == (None, None)
        for node in found.nodes:
            assert node is not None
            assert (node.first_index, node.last_index, node.last_term) == (0, 38, 1)
            assert (node.end_offset, node.committed_index, node.current_term) == (DLEDGER_END, 38, 1)
    assert run(["compare", *(str(three / node) for node in ("n0", "n1", "n2"))]) == 0
    assert capfd.readouterr().out.count("both hold the same records") == 3


def test_a_node_lags(three: Path) -> None:
    comparison = compared(three, "n0", "n1-later")
    assert not comparison.same
    assert not comparison.different_count
    assert sum(lack.record_count for lack in comparison.lacks) == 18
    assert comparison.resume_offset == DLEDGER_END
    found = comparison.replication
    assert (found.parting, found.ahead) == (None, "B")
    assert found.nodes[1] is not None
    assert (found.nodes[1].last_index, found.nodes[1].last_term) == (56, 3)


def test_a_node_diverged(three: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its first own entry differs by its header, in front of its record: nothing goes on from the record."""
    comparison = compared(three, "n0-alone", "n1-later")
    assert comparison.replication.parting == EntryParting(DLEDGER_END, 39, (2, 3), in_header=True)
    assert comparison.replication.ahead == "B"
    assert comparison.resume_offset == DLEDGER_END
    assert run(["compare", str(three / "n0-alone"), str(three / "n1-later")]) == 4
    said = capfd.readouterr().out
    assert f"entries differ from {DLEDGER_END} on, entry 39: term 2 in A, term 3 in B" in said
    assert f"Safe resume offset: {DLEDGER_END}" in said
