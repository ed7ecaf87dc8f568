"""Groups of replicas as lanes, and earlier states as marks, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.page.conftest import Open
from tests.page.documents import columns, fleet_page

pytestmark = pytest.mark.browser

KIB = 1024


def lane(root: str, relation: str, held: list[tuple[int, int]], **more: Any) -> dict[str, Any]:
    return {
        "store": -1,
        "root": root,
        "relation": relation,
        "held": held,
        "different": [],
        "different_count": 0,
        "parting_offset": None,
        "kept_offset": None,
        "only_here_count": 0,
        "lacking_count": 0,
    } | more


def parts_of(chart: Locator, root: str) -> list[tuple[str, float, float]]:
    """The parts of a lane as (kind, from, to), in shares of the width."""
    width = float(chart.get_attribute("width") or 0)
    found = []
    for part in chart.locator("rect.part").all():
        if (part.locator("title").text_content() or "").startswith(f"{root}: "):
            x, wide = (float(part.get_attribute(name) or 0) for name in ("x", "width"))
            kind = (part.get_attribute("fill") or "").removeprefix("url(#kind-").removesuffix(")")
            found.append((kind, x / width, (x + wide) / width))
    return found


def test_replicas_are_lanes_on_one_axis(open_page: Open) -> None:
    """One leads, one ends earlier, one parted, one has a hole and a damaged record, one has older files."""
    document = fleet_page(stores=4)
    document["groups"] = [
        {
            "manner": "plain",
            "lines": ["Group: 5 replicas; start a first", "  b is behind by 9 records, and gets them"],
            "lanes": [
                lane("a", "first", [(200 * KIB, 1000 * KIB)]),
                lane("b", "behind", [(200 * KIB, 600 * KIB)]),
                lane("c", "parted", [(200 * KIB, 900 * KIB)], parting_offset=400 * KIB),
                lane(
                    "d",
                    "damaged",
                    [(200 * KIB, 300 * KIB), (500 * KIB, 1000 * KIB)],
                    different=[(600 * KIB, 700 * KIB)],
                    different_count=3,
                ),
                lane("e", "level", [(0, 1000 * KIB)]),
            ],
        }
    ]
    opened = open_page(document)
    opened.settle()
    chart = opened.page.locator(".replica-chart")
    assert chart.count() == 1, "all of it can be seen: nothing is enlarged"

    def near(root: str, *expected: tuple[str, float, float]) -> None:
        found = parts_of(chart, root)
        assert [kind for kind, _, _ in found] == [kind for kind, _, _ in expected]
        for (_, *places), (_, *wanted) in zip(found, expected, strict=True):
            assert places == pytest.approx(wanted, abs=0.002)

    near("a", ("kept", 0.2, 1))
    near("b", ("kept", 0.2, 0.6))
    near("c", ("kept", 0.2, 0.4), ("cut", 0.4, 0.9))
    near("d", ("kept", 0.2, 0.3), ("kept", 0.5, 1), ("cut", 0.6, 0.7))
    near("e", ("hidden", 0, 0.2), ("kept", 0.2, 1))
    section = opened.page.locator("#replicas")
    expect(section.locator("h3").first).to_have_text("Group: 5 replicas; start a first")
    expect(section.locator("li").first).to_have_text("b is behind by 9 records, and gets them")
    expect(section.locator("tbody tr")).to_have_count(5)
    expect(section.locator("tbody tr").nth(2)).to_contain_text(str(400 * KIB))
    opened.check()


def test_a_small_end_that_differs_is_enlarged(open_page: Open) -> None:
    """One per cent of the log: true to scale it is a sliver, below it the end has a chart of its own."""
    document = fleet_page(stores=4)
    document["groups"] = [
        {
            "manner": "dledger",
            "lines": ["Group: 2 nodes of DLedger; start a first"],
            "lanes": [
                lane("a", "first", [(0, 1000 * KIB)]),
                lane("b", "parted", [(0, 995 * KIB)], parting_offset=990 * KIB, kept_offset=990 * KIB),
            ],
        }
    ]
    opened = open_page(document)
    opened.settle()
    charts = opened.page.locator(".replica-chart")
    assert charts.count() == 2
    whole = parts_of(charts.nth(0), "b")
    assert whole[0][2] == pytest.approx(0.99, abs=0.002)
    near = parts_of(charts.nth(1), "b")
    assert [kind for kind, _, _ in near] == ["kept", "cut"]
    assert near[1][1:] == pytest.approx((0.2, 0.6), abs=0.01)  # 990 and 995 of 987.5 to 1000
    expect(opened.page.locator("#replicas")).to_contain_text("Enlarged, 12.5 KiB")
    opened.check()


def history(runs: int) -> dict[str, Any]:
    states = ["healthy", "damaged", "refused"]
    return {
        "runs": [f"2023110{at + 1}T000000Z-0" for at in range(runs)],
        "timestamps": [1_698_796_800_000 + 86_400_000 * at for at in range(runs)],
        "states": columns(
            ["store", "run", "state", "error_count", "warning_count"],
            [(0, at, states[at % 3], at, 0) for at in range(runs) if at != 1]
            + [(1, 0, "healthy", None, None)],
        ),
    }


def test_earlier_states_are_marks_the_newest_on_the_right(open_page: Open) -> None:
    """The higher, the worse; where a run did not check the store there is a gap."""
    document = fleet_page(stores=8)
    document["history"] = history(3)
    opened = open_page(document)
    rows = opened.page.locator("#stores tbody tr")
    first = rows.filter(has_text=document["stores"]["root"][0])
    marks = first.locator(".mark-of-run")
    assert marks.count() == 3, "two earlier runs and this one"
    assert [float(mark.get_attribute("x") or 0) for mark in marks.all()] == [1, 19, 28]
    heights = [float(mark.get_attribute("height") or 0) for mark in marks.all()]
    assert heights == [4, 16, 16]
    titles = [mark.locator("title").text_content() for mark in marks.all()]
    assert titles[0] == "2023-11-01 00:00:00Z: healthy"
    assert titles[1] == "2023-11-03 00:00:00Z: refused, 2 errors"
    assert (titles[2] or "").startswith("this run: refused")
    assert first.locator(".heard").first.text_content() == "; ".join(filter(None, titles))
    third = rows.filter(has_text=document["stores"]["root"][2])
    assert third.locator(".history").count() == 0, "no earlier run checked it"
    opened.check()


def test_without_earlier_runs_nothing_is_drawn(open_page: Open) -> None:
    opened = open_page(fleet_page())
    expect(opened.page.locator("#stores thead").get_by_text("Earlier runs")).to_have_count(0)
    expect(opened.page.locator(".history, #replicas")).to_have_count(0)
    opened.check()
