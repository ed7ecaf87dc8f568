"""JUnit's XML, as CI systems read it: a suite for each family of rules, a case for each rule looked at.

    failure   findings of the rule above info; its type is the severity, its text the first findings
    skipped   what was left out on purpose, in the suite "not checked"
    error     what could not be read, in the same suite

There is no schema that all CI systems agree on. What is written is the part that they share: `testsuites`,
`testsuite`, `testcase`, and in a case at most one of the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from rocketfsck.cli.forms.checked import CheckSaid
from rocketfsck.cli.show.text import count_of, sentence, visible
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import NotChecked, Report
from rocketfsck.verify.rules.catalog import FAMILIES, RULES, Rule, describe

SHOWN = 100
"""Findings of one rule that its case shows."""
_NOT_CHECKED = "not checked"


def pieces(said: CheckSaid) -> Iterator[str]:
    """The document, a case a line."""
    report = said.report
    shown = _first_findings(report.findings)
    families = [
        (title, [RULES[name] for name in sorted(said.rules | shown.keys()) if name.startswith(family)])
        for family, title in FAMILIES.items()
    ]
    failed = sum(_fails(rule, report) for _, rules in families for rule in rules)
    errors = sum(item.operational for item in report.not_checked)
    totals: dict[str, str | int] = {
        "tests": sum(len(rules) for _, rules in families) + len(report.not_checked),
        "failures": failed,
        "errors": errors,
        "skipped": len(report.not_checked) - errors,
        "time": f"{report.seconds:.3f}",
    }
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f"<testsuites{_attributes(name='rocketfsck check', **totals)}>\n"
    for title, rules in families:
        if rules:
            yield from _suite(title, rules, report, shown)
    if report.not_checked:
        yield from _left_out(report)
    yield "</testsuites>\n"


def _first_findings(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """The lines of the first findings of each rule."""
    shown: dict[str, list[str]] = {}
    for finding in findings:
        lines = shown.setdefault(finding.rule, [])
        if len(lines) < SHOWN:
            lines.append(_line(finding))
    return shown


def _line(finding: Finding) -> str:
    where = finding.where
    place = visible(where.file) or "the store"
    if where.start is not None:
        place += f", byte {where.start}" if where.end is None else f", bytes {where.start} to {where.end}"
    return f"{place}: {sentence(describe(finding))} [{finding.fingerprint}]"


def _fails(rule: Rule, report: Report) -> bool:
    return report.severity_of(rule.id) > Severity.INFO and report.counts.get(rule.id, 0) > 0


def _suite(title: str, rules: list[Rule], report: Report, shown: dict[str, list[str]]) -> Iterator[str]:
    failed = sum(_fails(rule, report) for rule in rules)
    yield _suite_head(report, f"rocketfsck: {title}", tests=len(rules), failures=failed, errors=0, skipped=0)
    for rule in rules:
        name = _attributes(classname=f"rocketfsck.{rule.family}", name=f"{rule.id} {rule.slug}", time="0")
        count = report.counts.get(rule.id, 0)
        if not count:
            yield f"<testcase{name}/>\n"
            continue
        text = escape("\n".join(_text(rule, count, shown.get(rule.id, []))))
        if _fails(rule, report):
            message = f"{count_of(count, 'finding')}: {rule.slug}"
            said = _attributes(message=message, type=report.severity_of(rule.id).word)
            yield f"<testcase{name}><failure{said}>{text}</failure></testcase>\n"
        else:
            yield f"<testcase{name}><system-out>{text}</system-out></testcase>\n"
    yield "</testsuite>\n"


def _text(rule: Rule, count: int, lines: list[str]) -> Iterator[str]:
    yield from lines
    if len(lines) == SHOWN:
        yield f"at most {SHOWN} places are listed, of {count_of(count, 'finding')}"
    yield f"rocketfsck explain {rule.id}"


def _left_out(report: Report) -> Iterator[str]:
    items = report.not_checked
    errors = sum(item.operational for item in items)
    counts = {"tests": len(items), "failures": 0, "errors": errors, "skipped": len(items) - errors}
    yield _suite_head(report, f"rocketfsck: {_NOT_CHECKED}", **counts)
    yield from map(_left_out_case, items)
    yield "</testsuite>\n"


def _left_out_case(item: NotChecked) -> str:
    reason = sentence(item.reason)
    name = _attributes(classname="rocketfsck.not-checked", name=visible(item.what) or reason, time="0")
    why = _attributes(message=reason)
    inside = f'<error{why} type="operational"/>' if item.operational else f"<skipped{why}/>"
    return f"<testcase{name}>{inside}</testcase>\n"


def _suite_head(report: Report, name: str, **counts: int) -> str:
    moment = datetime.fromtimestamp(report.started_timestamp // 1000, UTC)
    started = moment.replace(tzinfo=None).isoformat()
    said = _attributes(name=name, **counts, time="0", timestamp=started, hostname="localhost")
    store = _attributes(name="store", value=visible(report.store.root))
    level = _attributes(name="level", value=report.level)
    return f"<testsuite{said}>\n<properties><property{store}/><property{level}/></properties>\n"


def _attributes(**values: str | int) -> str:
    return "".join(f" {name}={quoteattr(str(value))}" for name, value in values.items())
