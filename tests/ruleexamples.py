"""A plugin of pytest that writes down an example of each rule: specs/examples.tsv.

    pytest -p tests.ruleexamples -m 'not oracle and not spark and not nightly' tests/unit/verify tests/cases

Every rule has a test in which it fires: what such a finding says is its example. Findings of whole reports
come before those of a check alone; of several the shortest is taken, then the first by text, so that a run
after another changes little. A line is the rule, where the finding is, and what it says.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from rocketfsck.cli.show.report import where_text
from rocketfsck.common.wording import visible
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import FURTHER, RULES, describe

from specs.build import EXAMPLES_TABLE, SPECS, read_examples

TABLE = SPECS / EXAMPLES_TABLE
Examples = dict[str, tuple[str, str]]
_REPORTED: Examples = {}
_FOUND: Examples = {}
_FOLDER = re.compile(r"/(?:tmp|dev/shm)/(?:[^\s/:;,()']+/)*")
"""Where a test has its store."""


def _note(finding: Finding, into: Examples) -> None:
    try:
        text = visible(describe(finding), keep_backslash=True)
        example = _FOLDER.sub("/data/", where_text(finding.where)), _FOLDER.sub("/data/", text)
    except (KeyError, TypeError, ValueError):  # a finding that a test has made of less than a check does
        return
    known = into.get(finding.rule)
    if FURTHER in finding.found or "?" in text:
        return
    if finding.rule in RULES and (known is None or (len(example[1]), *example) < (len(known[1]), *known)):
        into[finding.rule] = example


@pytest.hookimpl
def pytest_configure() -> None:
    """Look at every report and every finding that is made from now on."""
    report_made, finding_made = Report.__init__, Finding.__init__

    def report_noted(self: Report, *given: Any, **named: Any) -> None:
        report_made(self, *given, **named)
        for finding in self.findings:
            _note(finding, _REPORTED)

    def finding_noted(self: Finding, *given: Any, **named: Any) -> None:
        finding_made(self, *given, **named)
        _note(self, _FOUND)

    Report.__init__ = report_noted  # type: ignore[method-assign]
    Finding.__init__ = finding_noted  # type: ignore[method-assign]


@pytest.hookimpl
def pytest_sessionfinish() -> None:
    """Write the examples; those of rules that no report of this run has stay."""
    found = {**_FOUND, **(read_examples() if TABLE.exists() else {}), **_REPORTED}
    lines = (f"{rule}\t{where}\t{text}\n" for rule, (where, text) in sorted(found.items()) if rule in RULES)
    TABLE.write_text("".join(lines), "utf-8")
