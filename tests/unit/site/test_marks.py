"""What would be read as a mark is escaped, and code stays as it is."""

from __future__ import annotations

from docs.site.marks import anchor_of, cell, code, plain


def test_marks_outside_of_code_are_escaped() -> None:
    assert plain("a <b> *c* in `<d> *e*`") == "a &lt;b> \\*c\\* in `<d> *e*`"
    assert plain("one ` and <x>") == "one ` and &lt;x>"


def test_a_cell_is_one_line_without_bars() -> None:
    assert cell("a |\n  b `c|d`") == "a \\| b `c\\|d`"
    assert code("[json|text]") == "`[json\\|text]`"


def test_anchors_are_those_of_code_hosts() -> None:
    assert anchor_of("8. A thread of the broker is at 100 % while `it` runs") == (
        "8-a-thread-of-the-broker-is-at-100--while-it-runs"
    )
