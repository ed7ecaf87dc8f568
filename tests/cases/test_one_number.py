"""One screen, one number for one thing: every view of a damaged store has the same numbers.

Text, JSON, page, browser, fleet, Python, plan and `fix` are views of one account (design, section 7). For
each named damage all of them are made and compared; what the plan promises is what `fix` then does.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rocketfsck
from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.model.findings import count_severities, load_findings
from rocketfsck.engine import LocalEngine
from rocketfsck.pipeline.fleet.run import check_stores
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Fates, Severity
from rocketfsck.writer.damage import DAMAGES
from rocketfsck.writer.disk import fileops

from tests.cases.test_damage import BY_CLASS
from tests.cases.test_repairs import STORES, damaged
from tests.conftest import NIGHTLY, RELEASED, Directory
from tests.unit.cli.conftest import Cli, cli  # noqa: F401 - a fixture

WANTED = 3 if NIGHTLY else 1
FIRST_LINES = 15
VIEWED = frozenset(
    {
        "torn-tail", "boundary-lost", "body-flip", "missing-segment", "segment-renamed",
        "segment-misnumbered", "missing-queue", "missing-all-queues", "dangling-tail", "ghost-queue",
        "queue-shift", "blank-early",
        "chain-cycle", "config-cut", "commitlog-gone", "first-segment-missing", "record-malformed",
    }
)  # fmt: skip
"""Damages that `make test` looks at in the page and the browser, too; `make nightly` all of them."""
ASKED = DAMAGES if NIGHTLY else sorted({*sorted(VIEWED)[::2], *sorted(BY_CLASS.values())[::8]})
"""By day half of those above, and one damage of some fault classes; `test_repairs.py` repairs after each."""

MAGICS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
CHANGES: tuple[tuple[str, Callable[[Fates, Fates], int]], ...] = (
    (r"consumers get ([\d,]+) messages? more", lambda now, then: then.got_count - now.got_count),
    (r"consumers get ([\d,]+) messages? fewer", lambda now, then: now.got_count - then.got_count),
    (
        r"([\d,]+) messages? (?:is|are) replaced by fillers",
        lambda now, then: then.replaced_count - now.replaced_count,
    ),
    (
        r"([\d,]+) messages? (?:is|are) no longer damaged",
        lambda now, then: now.damaged_count - then.damaged_count,
    ),
    (r"([\d,]+) messages? stays? lost", lambda _, then: then.lost_count),
    (r"([\d,]+) messages? stays? out of reach", lambda _, then: then.unreached_count),
    (r"([\d,]+) messages? stays? damaged", lambda _, then: then.damaged_count),
)
"""Clauses of the first screen, and what they are views of."""


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what a power cut leaves."""
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


def fates(document: dict[str, int] | None) -> Fates:
    assert document is not None
    return Fates(**document)


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("name", ASKED)
def test_each_view_has_the_same_numbers(
    name: str,
    cli: Cli,  # noqa: F811
    any_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    made = damaged(name, any_dir, tmp_path, RELEASED.get(DAMAGES[name].needs, STORES), WANTED)
    assert made
    for harmed in made:
        root, paths = harmed.root, harmed.paths
        options = [word for path in paths for word in ("--commitlog-path", str(root / path))]
        report_path = tmp_path / "report.json"
        said = json.loads(cli("check", root, *options, "--format", "json").out)
        report_path.write_text(json.dumps(said))
        text = cli("check", root, *options).out.splitlines()[:FIRST_LINES]
        now_and_then_agree(said)
        text_agrees(text, said)
        if (NIGHTLY or name in VIEWED) and not paths:
            page_agrees(cli, root, tmp_path / "page.json", said)
            browser_agrees(root, report_path, said)
            fleet_agrees(root, said)
            python_agrees(root, said)
        fix_does_what_was_said(cli, root, options, said)
        shutil.rmtree(root)


@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("name", ["4.9.8-lmq", "5.1.4-lmq-lists", "5.5.0-lite", "4.9.8-multiseg"])
def test_a_destroyed_record_is_one_lost_message(
    name: str, count: int, any_dir: Directory, tmp_path: Path
) -> None:
    """However many light queues list the record."""
    root = tmp_path / "store"
    shutil.copytree(any_dir(name), root)
    report = check_store(open_store(root), engine=LocalEngine(1))
    record_count = report.checked["commitlog"].record_count
    assert report.account is not None
    assert report.account.fates == Fates(served_count=record_count)
    destroy(min(path for path in (root / "commitlog").iterdir() if path.name.isdigit()), count)
    store = open_store(root)
    report = check_store(store, engine=LocalEngine(1))
    assert report.account is not None
    now = Fates(served_count=record_count - count, lost_count=count)
    assert report.account.fates == now
    messages = judge_store(store, report).messages
    assert messages is not None
    assert messages.now == now
    assert messages.is_tried
    assert messages.after_plan == replace(now, lost_count=0, replaced_count=count)


def destroy(log: Path, count: int) -> None:
    """Overwrite so many neighbouring records of a commit log file."""
    data = bytearray(log.read_bytes())
    places = []
    pos = 0
    while (size := int.from_bytes(data[pos : pos + 4], "big")) > 0 and data[pos + 4 : pos + 8] in MAGICS:
        places.append((pos, pos + size))
        pos += size
    wanted = places[len(places) // 3 :][:count]
    start, end = wanted[0][0] + 3, wanted[-1][1] - 2
    data[start:end] = b"\xa5" * (end - start)
    log.write_bytes(data)


def now_and_then_agree(said: dict[str, Any]) -> None:
    """The account has the same messages in all states; the verdict is a view of report and account."""
    verdict, account = said["verdict"], said["account"]
    errors = sum(item["count"] for item in said["findings"] if item["severity"] == "error")
    warnings = sum(item["count"] for item in said["findings"] if item["severity"] == "warning")
    assert (errors, warnings) == (verdict["error_count"], verdict["warning_count"])
    if account is None:
        assert verdict["messages"] is None
        return
    messages = verdict["messages"]
    now = fates(messages["now"])
    assert now.total_count == sum(tally["message_count"] for tally in account["tallies"])
    for row in messages["after_starts"]:
        assert fates(row["messages"]).total_count == now.total_count
    if messages["after_plan"] is not None:
        assert fates(messages["after_plan"]).total_count >= now.total_count
    prospect = verdict["prospect"]
    if prospect is not None:
        assert prospect["answered_count"] + prospect["unanswered_count"] == errors + warnings


def text_agrees(lines: list[str], said: dict[str, Any]) -> None:
    """Every number of the first lines."""
    verdict, whole = said["verdict"], "\n".join(lines)
    found = dict.fromkeys(("error", "warning", "note"), 0)
    for line in lines:
        if line.startswith("  Found "):
            found |= {
                noun: number(count) for count, noun in re.findall(r"([\d,]+) (error|warning|note)s?\b", line)
            }
            assert tuple(found.values()) == tuple(
                verdict[f"{word}_count"] for word in ("error", "warning", "info")
            )
    prospect, messages = verdict["prospect"], verdict["messages"]
    if prospect is not None and prospect["action_count"] and verdict["state"] != "unclean":
        match = re.search(r"([\d,]+) actions? corrects? (?:([\d,]+) of )?([\d,]+) findings?; (.*)", whole)
        assert match is not None
        assert number(match[1]) == prospect["action_count"]
        assert number(match[3]) == verdict["error_count"] + verdict["warning_count"]
        assert number(match[2] or match[3]) == prospect["answered_count"]
        safe = re.search(r"([\d,]+) (?:is|are) safe", match[4])
        assert safe is None or number(safe[1]) == prospect["safe_count"]
    left = re.search(r"([\d,]+) findings? (?:is|are) left", whole)
    assert left is None or (prospect is not None and number(left[1]) == prospect["unanswered_count"])
    if messages is None:
        return
    now = fates(messages["now"])
    lost = re.match(r"(?:At least )?([\d,]+) messages? (?:is|are) lost\.", lines[0])
    assert lost is None or number(lost[1]) == now.lost_count
    stated = sum(
        number(count)
        for count in re.findall(
            r"^  (?:Lost)? +(?:at least )?([\d,]+) messages? (?:is|are) lost:", whole, re.M
        )
    )
    assert stated == (now.lost_count if verdict["state"] != "healthy" else 0)
    for pattern, value in CHANGES:
        match = re.search(pattern, whole)
        if match is not None:
            assert number(match[1]) == value(now, fates(messages["after_plan"])), pattern


def page_agrees(cli: Cli, root: Path, path: Path, said: dict[str, Any]) -> None:  # noqa: F811
    """The document of the page."""
    path.unlink(missing_ok=True)
    cli("check", root, "--report", path)
    page, verdict = json.loads(path.read_text()), said["verdict"]
    counts = {"error": 0, "warning": 0, "info": 0}
    for rule in page["findings"]["rules"]:
        counts[rule["severity"]] += rule["count"]
    assert counts == {word: verdict[f"{word}_count"] for word in counts}
    assert page["findings"]["count"] == sum(counts.values())
    assert page["verdict"]["messages"] == verdict["messages"]
    plan = page["plan"]
    assert plan is not None
    before, after, messages = plan["before"], plan["after"], verdict["messages"]
    assert before["error_count"] == verdict["error_count"]
    assert before["damaged_byte_count"] == verdict["damaged_byte_count"]
    assert messages is None or before["record_count"] == fates(messages["now"]).in_log_count
    if verdict["prospect"] is not None:
        assert plan["action_counts"]["count"] == verdict["prospect"]["action_count"]
        assert after["error_count"] + after["warning_count"] == verdict["prospect"]["unanswered_count"]
        assert sum(item["count"] for item in plan["unanswered"]) == verdict["prospect"]["unanswered_count"]
        if messages is not None:
            assert after["readable_count"] == fates(messages["after_plan"]).got_count
        if plan["tried"] is not None and not plan["tried"]["findings"]["unchecked"]:
            tried = plan["tried"]["findings"]
            rules = [*page["findings"]["rules"], *tried["rules"]]
            above = sum(
                count
                for rule, count in zip(rules, tried["counts"], strict=True)
                if rule["severity"] != "info"
            )
            assert above == verdict["prospect"]["unanswered_count"]


def browser_agrees(root: Path, path: Path, said: dict[str, Any]) -> None:
    """The model of `browse`."""
    findings = load_findings(Shelf(open_store(root)), path)
    counts = count_severities(findings.all)
    verdict = said["verdict"]
    for severity, name in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "info")):
        assert counts.get(severity, 0) == verdict[f"{name}_count"]
    assert findings.verdict is not None
    assert findings.verdict.state == verdict["state"]
    assert findings.verdict.finding_count == verdict["error_count"] + verdict["warning_count"]


def fleet_agrees(root: Path, said: dict[str, Any]) -> None:
    """A fleet's row."""
    (row,) = check_stores([root]).stores
    verdict, messages = said["verdict"], said["verdict"]["messages"]
    assert (row.state, row.exit_code) == (verdict["state"], said["exit_code"])
    for name in ("error_count", "warning_count", "info_count", "damaged_byte_count", "may_start"):
        assert getattr(row, name) == verdict[name], name
    assert row.lost_record_count == (None if messages is None else fates(messages["now"]).lost_count)


def python_agrees(root: Path, said: dict[str, Any]) -> None:
    """The Python interface."""
    with rocketfsck.open(root) as store:
        verdict: Verdict = store.verdict()
        assert verdict.state == said["verdict"]["state"]
        if verdict.messages is not None:
            assert verdict.messages.now == fates(said["verdict"]["messages"]["now"])
            certain = sum(item.message_count for item in store.lost() if item.sure != "perhaps")
            assert certain == verdict.messages.now.lost_count


def fix_does_what_was_said(cli: Cli, root: Path, options: list[str], said: dict[str, Any]) -> None:  # noqa: F811
    """`fix` leaves the findings that the verdict said, and makes of the messages what it said."""
    verdict = said["verdict"]
    prospect = verdict["prospect"]
    if prospect is None or not prospect["action_count"]:
        return
    words = [word for item in prospect["assumed"] for word in ("--assume", item)]
    done = json.loads(cli("fix", root, *options, "--yes", *words, "--format", "json").out)
    applied = done["apply"]
    assert done["verdict"]["messages"] == verdict["messages"]
    assert done["verdict"]["prospect"] == prospect
    assert applied["problem"] == ""
    assert len(applied["actions"]) == prospect["action_count"]
    assert sum(item["count"] for item in applied["left"]) == prospect["unanswered_count"]
    after = json.loads(cli("check", root, *options, "--format", "json").out)
    assert after["verdict"]["error_count"] + after["verdict"]["warning_count"] == prospect["unanswered_count"]
    if verdict["messages"] is None:
        return
    now, then = fates(applied["messages_before"]), fates(applied["messages_after"])
    assert (now, then) == (fates(verdict["messages"]["now"]), fates(verdict["messages"]["after_plan"]))
    found = fates(after["verdict"]["messages"]["now"])
    assert found.got_count == then.got_count
    assert (found.unreached_count, found.replaced_count) == (then.unreached_count, then.replaced_count)


assert set(DAMAGES) >= VIEWED
