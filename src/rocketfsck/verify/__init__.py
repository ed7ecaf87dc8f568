"""Judges a store: rules, checks, findings, the report.

    from rocketfsck.store import open_store
    from rocketfsck.verify import CheckOptions, check_store, describe
    report = check_store(open_store("/data/rocketmq/store"), CheckOptions(level="cross"))
    for finding in report.findings:
        print(finding.where.file, describe(finding))

`catalog` has the table of rules and the words, `task` the contract between driver and checks. Importing the
package imports none of its modules: explaining a rule must not cost what checking a store does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.verify.finding import Finding as Finding
    from rocketfsck.verify.finding import Rule as Rule
    from rocketfsck.verify.finding import Severity as Severity
    from rocketfsck.verify.finding import Where as Where
    from rocketfsck.verify.options import CheckOptions as CheckOptions
    from rocketfsck.verify.options import Subset as Subset
    from rocketfsck.verify.report import Report as Report
    from rocketfsck.verify.rules.catalog import RULES as RULES
    from rocketfsck.verify.rules.catalog import describe as describe
    from rocketfsck.verify.rules.catalog import find_rule as find_rule
    from rocketfsck.verify.run import check_store as check_store
    from rocketfsck.verify.tasks.resume import read_baseline as read_baseline
    from rocketfsck.verify.tasks.resume import write_baseline as write_baseline

__getattr__ = late_names(
    __name__,
    {
        "tasks.resume": "read_baseline write_baseline",
        "finding": "Finding Rule Severity Where",
        "options": "CheckOptions Subset",
        "report": "Report",
        "rules.catalog": "RULES describe find_rule",
        "run": "check_store",
    },
)
