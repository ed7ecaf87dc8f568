"""explain knows every rule and every fault class, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.repair.plan.planning import all_repairs, repairs_of, rules_of
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES

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


def test_classes_that_only_two_stores_show_name_the_command(cli: Cli) -> None:
    for name in ("H1", "H2"):
        assert "`rocketfsck compare A B` finds it in two" in _words(cli("explain", name).out)
    assert "compare A B" not in cli("explain", "O1").out


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


MAGIC = "2026-02-24 09:38:29 WARN main - found a illegal magic code 0x696e4d73"


def test_a_line_of_a_log(cli: Cli) -> None:
    shown = cli("explain", MAGIC)
    assert shown.code == 0
    for said in ("CommitLog#checkMessageAndReturnSize (warn, 4.4.0-5.5.0)", "#289", "CL001", "C2"):
        assert said in shown.out


def test_a_log_on_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    log = f"{MAGIC}\nanything else\n{MAGIC}\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))
    [row] = cli("explain", "-", "--format", "jsonl").rows()
    assert (row["kind"], row["id"], row["severity"], row["count"]) == ("line", "illegal-magic", "damage", 2)


@pytest.mark.parametrize("text", ["nothing about a store", "\x1b[31m red \udcff", "a b " * 100_000])
def test_a_text_that_says_nothing_about_a_store(cli: Cli, text: str) -> None:
    shown = cli("explain", text)
    assert shown.code == 16
    assert shown.err.count("\n") == 1
    assert "\x1b" not in shown.out + shown.err


def test_control_characters_of_a_line_stay_out_of_the_terminal(cli: Cli) -> None:
    shown = cli("explain", "WARN x - TransientStorePool only remain \x1b[31m\u202e7\udcff sheets.")
    assert shown.code == 0
    assert shown.out.isascii()
    assert "\x1b" not in shown.out


def test_names_come_first(cli: Cli) -> None:
    assert cli("explain", "CL001").out.startswith("CL001")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: 0",
            "a record begins at physical offset 0",
        ),
        (
            "[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: 1",
            "no record begins at physical offset 1",
        ),
        (
            "[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: 99999999999",
            "no file has physical offset",
        ),
        (
            "recover next physics file, /x/store/commitlog/00000000000000000000",
            "commitlog/00000000000000000000 has",
        ),
        ("recover next physics file, /x/store/commitlog/00000000009999999999", "the store has no file"),
        (
            "[BUG]consume queue can not write, NoSuchTopic 7",
            "the store has no consume queue 7 of topic NoSuchTopic",
        ),
    ],
)
def test_places_in_a_store(cli: Cli, store_dir: Callable[[str], Path], text: str, said: str) -> None:
    store = store_dir("4.9.8-basic")
    [row] = cli("explain", text, "--store", store, "--format", "jsonl").rows()
    assert said in row["places"]
    assert str(store) in row["next"]


def test_a_queue_of_a_store(cli: Cli, store_dir: Callable[[str], Path]) -> None:
    store = store_dir("4.9.8-basic")
    topic = next(path.name for path in sorted((store / "consumequeue").iterdir()) if path.is_dir())
    line = (
        "WARN ReputMessageService - [BUG]logic queue order maybe wrong, expectLogicOffset: 0 "
        f"currentLogicOffset: 20 Topic: {topic} QID: 0 Diff: -20"
    )
    document = json.loads(cli("explain", line, "--store", store, "--format", "json").out)
    assert "queue offset 1:" in json.dumps(document)
    assert "query offset" in json.dumps(document)
