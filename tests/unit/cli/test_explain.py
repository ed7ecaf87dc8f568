"""explain knows every rule and every fault class, and nothing else."""

from __future__ import annotations

import csv
import io

from rocketfsck.repair.plan.planning import all_repairs, repairs_of, rules_of
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

from tests.unit.cli.conftest import Cli


def _words(text: str) -> str:
    return " ".join(text.split())


def test_every_rule(cli: Cli) -> None:
    for name, rule in RULES.items():
        out = cli("explain", name.lower()).out
        assert out.startswith(f"{rule.id}  {rule.slug}\n")
        for said in (
            rule.meaning,
            rule.why,
            rule.severity.name.lower(),
            rule.reference,
            " or ".join(repairs_of(name)) or "nothing",
        ):
            assert _words(said) in _words(out), name
        if rule.fault_class:
            assert _words(FAULT_CLASSES[rule.fault_class].meaning) in _words(out), name
    assert out == cli("explain", rule.slug).out


def test_every_fault_class(cli: Cli) -> None:
    for name, fault_class in FAULT_CLASSES.items():
        out = cli("explain", name).out
        assert _words(fault_class.meaning) in _words(out), name
        for rule in RULES.values():
            assert (f"    {rule.id} " in out) is (rule.fault_class == name), name


def test_lists(cli: Cli) -> None:
    lines = [line.split()[0] for line in cli("explain").out.splitlines() if line.startswith("  ")]
    assert sorted(lines) == sorted([*RULES, *FAULT_CLASSES, *all_repairs()])
    listed = [line.split()[0] for line in cli("explain", "repairs").out.splitlines() if line.startswith("  ")]
    assert listed == [*all_repairs()]
    family = [line.split()[0] for line in cli("explain", "cq").out.splitlines() if line.startswith("  ")]
    assert family == [name for name in RULES if name.startswith("CQ")]


def test_machine_formats(cli: Cli) -> None:
    rows = cli("explain", "--format", "jsonl").rows()
    assert [row["id"] for row in rows] == [*RULES, *FAULT_CLASSES, *all_repairs()]
    assert rows[-1]["rules"] is not None
    assert rows[0]["why"] == RULES[rows[0]["id"]].why
    table = list(csv.DictReader(io.StringIO(cli("explain", "CL001", "--format", "csv").out)))
    assert [row["slug"] for row in table] == [RULES["CL001"].slug]


def test_unknown_names(cli: Cli) -> None:
    near = cli("explain", "record-body-crcs")
    assert (near.code, near.out) == (16, "")
    assert "did you mean record-body-crc?" in near.err
    assert "`rocketfsck explain` lists all" in cli("explain", "xyzzy").err


def test_who_repairs_it(cli: Cli) -> None:
    assert (
        "salvage-log, as `rocketfsck plan STORE --only salvage-log` plans it" in cli("explain", "CL001").out
    )
    assert "nothing: a note" in cli("explain", "IX027").out
    assert "nothing: a person must decide" in cli("explain", "CL005").out


def test_every_repair(cli: Cli) -> None:
    for name, known in all_repairs().items():
        out = _words(cli("explain", name).out)
        for said in (known.summary, *rules_of(known), *known.writes_by, *known.areas):
            assert said in out, name


def test_a_rule_names_the_repairs_that_plans_have(cli: Cli) -> None:
    assert "flip-bit, as `rocketfsck plan STORE --only flip-bit` plans it" in cli("explain", "CL004").out
    assert "rename-segment or set-physical-offset, as" in cli("explain", "CL006").out
    assert "fence-gap or rebuild-queue, as" in cli("explain", "ST010").out
