"""Actions that others make needless, by their places, in one pass over them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.table import absorbed

MOOT_AFTER = {"cut": (), "fill": ("cut",), "note": ("cut", "fill")}
TABLE: Any = {name: SimpleNamespace(moot_after=after) for name, after in MOOT_AFTER.items()}


actions = st.lists(
    st.tuples(st.sampled_from([*MOOT_AFTER]), st.sampled_from(["", "log", "log/1", "log/10", "log/1/x"])),
    unique=True,
    max_size=8,
)


@given(actions)
def test_what_is_left_answers_for_the_others(places: list[tuple[str, str]]) -> None:
    made = [Action(name, target, "", why=(f"{name} {target}",), rules=(name,)) for name, target in places]
    left = absorbed(made, TABLE)
    kept = [(action.name, action.target) for action in left]
    assert kept == [place for place in places if place in kept]  # the order stays
    needless = {
        (name, target)
        for name, target in places
        for other, above in places
        if other in MOOT_AFTER[name] and f"{target}/".startswith(f"{above}/")
    }
    roots = [place for place in places if place not in needless]
    assert {*roots} <= {*kept}
    assert sorted(name for action in left for name in action.why) == sorted(
        name for action in made for name in action.why
    )
    for action in left:
        assert {why.split()[0] for why in action.why} == {*action.rules}


def test_many_actions_are_taken_by_one() -> None:
    made = [Action("fill", f"log/{number}", "", why=(str(number),), rules=("R",)) for number in range(30_000)]
    [cut] = absorbed([*made, Action("cut", "log", "", why=("cut",), rules=("C",))], TABLE)
    assert cut.name == "cut" and len(cut.why) == 30_001 and cut.rules == ("C", "R")
