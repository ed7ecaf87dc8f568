"""What the broker's own store code answered: the report of `tests/oracle`, by question and version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.trust.documents import ROOT, Answered, Oracle, Said, commit

REPORTS = ROOT / "build" / "trust"
DEEP = "5.3.3"
"""The version on whose code every damage is started, whole and repaired: the others get a part by day."""
RUNS: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "all": ({}, "oracle and not nightly", "tests/oracle"),
    "deep": (
        {"ROCKETFSCK_NIGHTLY": "1", "ROCKETFSCK_ORACLE_VERSIONS": DEEP},
        "oracle",
        "tests/oracle/test_oracle_verdicts.py",
    ),
}
"""Runs of the tests: what is set in their surroundings, the marks, and where the tests are."""
STARTS, SERVES, REPAIRS = "starts and verdicts", "messages served", "repairs"

QUESTIONS: Mapping[str, tuple[str, str]] = {
    "test_what_is_said_happens": (STARTS, "the verdict on a damaged store is what a start does to it"),
    "test_the_real_start_is_as_predicted": (STARTS, "`simulate` predicts the files that a start leaves"),
    "test_keys_are_answered_as_predicted": (STARTS, "`simulate` predicts the answers to queries by key"),
    "test_damaged_stores_restart_as_they_did": (STARTS, "a start gives what a broker's start gave"),
    "test_what_brokers_skip_is_foretold": (STARTS, "what brokers skip after `salvage` is counted before"),
    "test_all_answers": (SERVES, "`BrokerView` gives the answers of a running broker"),
    "test_the_real_code_gives_what_the_manifest_says": (SERVES, "stores of brokers hold what is recorded"),
    "test_what_is_appended_is_served": (SERVES, "a broker appends to such a store and serves the result"),
    "test_what_we_write_is_clean": (SERVES, "a store that the writer made is loaded without a complaint"),
    "test_every_message_is_served_by_queue_offset": (SERVES, "all its messages are served by queue offset"),
    "test_every_message_is_served_by_key": (SERVES, "all its messages are served by key"),
    "test_the_real_code_appends": (SERVES, "a broker appends to it and serves the result"),
    "test_what_the_real_code_leaves_is_clean": (SERVES, "a check finds nothing in what the broker left"),
    "test_we_append_to_what_the_real_code_left": (SERVES, "the writer appends to it, and all is served"),
    "test_what_comes_due_is_delivered": (SERVES, "delayed messages of a written store are delivered"),
    "test_lists_that_end_with_another_name": (SERVES, "light queues are clean, and rebuilt byte for byte"),
    "test_a_repair_brings_back_what_is_there": (REPAIRS, "a start keeps all that a repair promised"),
    "test_the_repair_did_what_it_planned": (REPAIRS, "a repaired store is loaded, and is what the plan says"),
    "test_every_survivor_is_served_by_queue_offset": (REPAIRS, "its messages are served by queue offset"),
    "test_every_survivor_is_served_by_key": (REPAIRS, "its messages are served by key"),
    "test_the_real_code_appends_and_leaves_it_clean": (REPAIRS, "a broker appends to it; a check is clean"),
    "test_without_settings_a_repair_is_refused_or_loads": (
        REPAIRS, "without broker.conf it loads or is refused"),
    "test_a_repair_without_a_conf_loads_or_is_refused": (REPAIRS, "the same for single damages"),
    "test_what_cannot_be_known_is_not_written": (REPAIRS, "a size that nothing tells is not written"),
    "test_undo_gives_every_byte_after_a_broker_has_worked": (REPAIRS, "`undo` gives back every byte"),
    "test_databases_before_and_after_the_repair": (REPAIRS, "RocksDB queues are served, repaired or not"),
    "test_what_is_behind_a_fence_is_served": (REPAIRS, "messages after a filler record are served"),
    "test_a_queue_that_the_broker_rebuilds_closes_ranks": (REPAIRS, "a broker rebuilds queues as predicted"),
    "test_a_broker_that_demands_property_crcs_takes_a_fence": (REPAIRS, "property checksums accept fillers"),
    "test_what_was_salvaged_is_served": (REPAIRS, "what `salvage` wrote is loaded and served"),
    "test_what_was_cut_out_is_served": (REPAIRS, "what `extract` wrote is loaded and served"),
}  # fmt: skip
"""What each test asks, and the kind of the question."""

NO_QUESTION = frozenset({
    "test_table_of_confusion", "test_a_wrong_byte_does_not_pass", "test_the_code_is_read",
    "test_releases_in_their_order", "test_what_changed", "test_a_draft_has_the_new_files",
    "test_versions_that_are_asked_for", "test_every_damage_without_a_conf",
})  # fmt: skip
"""Tests that do not ask a version about a store; the last is nightly, and another asks the same by day."""

ALONE = {"test_a_broker_that_demands_property_crcs_takes_a_fence": "5.3.3"}
"""Tests of one version, which is not among their parameters."""


def measure(jobs: int = 1, _count: int | None = None) -> Oracle:
    """Run the tests on the versions of `tests/oracle/versions`: some minutes, with a JDK and Maven.

    Raises ValueError where no version could be run.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "loadfile"]
    command += ["-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    reports: list[Path] = []
    for name, (surroundings, marks, tests) in RUNS.items():
        reports.append(REPORTS / f"{name}.xml")
        options = ["-m", marks, f"--junitxml={reports[-1]}", tests]
        env = {**os.environ, **surroundings}
        subprocess.run([*command, *options], cwd=ROOT, env=env, check=False, stdout=sys.stderr)
    return figures(*reports)


def figures(*reports: Path) -> Oracle:
    """What reports for JUnit say, by question and version; of a case that is in several, the last.

    Raises ValueError for an unknown test.
    """
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    skipped: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    disagreed: dict[tuple[str, str], list[str]] = defaultdict(list)
    verdicts: dict[str, tuple[str, str]] = {}
    cases = [case for report in reports for case in ET.parse(report).getroot().iter("testcase")]
    for case in cases:
        verdicts.update(json.loads(_noted(case).get("confusion", "{}")))
    for case in {(case.get("classname"), case.get("name")): case for case in cases}.values():
        name = case.get("name", "").partition("[")[0]
        noted = _noted(case)
        if name in NO_QUESTION:
            continue
        if name not in QUESTIONS:
            raise ValueError(f"{name} is in neither table of tests.trust.oracle")
        place = name, noted.get("version", "") or ALONE.get(name, "")
        left_out = case.find("skipped")
        counts[place]["asked"] += 1
        if left_out is not None:
            skipped[place][left_out.get("message", "")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            disagreed[place].append(case.get("name", "").partition("[")[2].removesuffix("]"))
        else:
            counts[place]["agreed"] += 1
    answers = tuple(
        Answered(
            name,
            version,
            found["asked"],
            found["agreed"],
            tuple(disagreed[name, version]),
            dict(skipped[name, version]),
        )
        for (name, version), found in sorted(counts.items())
    )
    if not any(one.agreed or one.disagreed for one in answers):
        raise ValueError("no version's code could be run: see the reasons in the report")
    said = Counter((state, happened) for state, happened in verdicts.values())
    rows = tuple(Said(state, happened, count) for (state, happened), count in sorted(said.items()))
    return Oracle(commit(), answers, rows)


def _noted(case: ET.Element) -> dict[str, str]:
    """What a test noted of itself."""
    return {item.get("name", ""): item.get("value", "") for item in case.iter("property")}
