"""Options of a check: rules by id, slug and prefix; subsets that together are the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import UsageError
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.stopping import RulePolicy, ignored_rules, unpreened_rules


def test_all_rules_by_default_and_only_those_of_the_level_are_looked_for() -> None:
    assert CheckOptions().selected_rules() == frozenset(RULES) == CheckOptions().wanted_rules()
    quick = CheckOptions(level="quick")
    assert quick.wanted_rules() == {rule.id for rule in RULES.values() if rule.level == "quick"}
    assert quick.selected_rules() == frozenset(RULES)


def test_select_and_ignore_take_ids_slugs_and_prefixes() -> None:
    chosen = CheckOptions(select=("cq", "segment-gap", "CP00"), ignore=("CQ001", "CP003")).selected_rules()
    assert {name[:2] for name in chosen} == {"CQ", "ST", "CP"}
    assert "ST010" in chosen
    assert "ST011" not in chosen
    assert "CQ001" not in chosen
    assert "CP003" not in chosen
    assert "CP001" in chosen
    assert "CP010" not in chosen


@pytest.mark.parametrize("name", ["", "ZZ", "segment", "ST0010"])
def test_names_that_fit_no_rule_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        CheckOptions(select=(name,)).selected_rules()
    with pytest.raises(UsageError):
        CheckOptions(ignore=(name,)).selected_rules()


@pytest.mark.parametrize(
    "values",
    [
        {"level": "deep"},
        {"max_duration": 0.0},
        {"max_duration": -1.0},
        {"max_duration": float("nan")},
        {"detail_limit": 0},
        {"jobs": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        CheckOptions(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "subset", "shown"),
    [
        ("2/5", Subset(number=2, total=5), "2/5"),
        ("10%", Subset(percent=10.0), "10%"),
        ("0.5%", Subset(percent=0.5), "0.5%"),
        ("500M", Subset(byte_count=500 << 20), "524288000 bytes"),
        ("3GiB", Subset(byte_count=3 << 30), "3221225472 bytes"),
        ("77", Subset(byte_count=77), "77 bytes"),
    ],
)
def test_subsets_are_parsed(text: str, subset: Subset, shown: str) -> None:
    assert Subset.parse(text) == subset
    assert str(subset) == shown


@pytest.mark.parametrize(
    "text", ["", "0/5", "6/5", "1/0", "0%", "101%", "0", "-1", "x", "1/2/3", "٣", "5 %", "1e3"]
)
def test_subsets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Subset.parse(text)


KEYS = st.lists(st.text(max_size=6), max_size=30, unique=True)


@given(KEYS, st.integers(1, 12))
def test_the_parts_are_disjoint_and_together_all(keys: list[str], total: int) -> None:
    sizes = [1] * len(keys)
    parts = [Subset(number=number, total=total).choose(keys, sizes) for number in range(1, total + 1)]
    assert sorted(index for part in parts for index in part) == list(range(len(keys)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(KEYS, st.floats(0.1, 100))
def test_a_percentage_covers_at_least_so_many_bytes(keys: list[str], percent: float) -> None:
    sizes = [7 * index for index in range(len(keys))]
    chosen = Subset(percent=percent).choose(keys, sizes)
    assert sum(sizes[index] for index in chosen) >= sum(sizes) * percent / 100 - 1e-6
    assert bool(chosen) == bool(keys)


@given(KEYS)
def test_the_choice_depends_on_names_only(keys: list[str]) -> None:
    subset = Subset(byte_count=3)
    chosen = {keys[index] for index in subset.choose(keys, [1] * len(keys))}
    turned = keys[::-1]
    assert chosen == {turned[index] for index in subset.choose(turned, [1] * len(keys))}
    assert len(chosen) == min(3, len(keys))


def test_what_a_policy_leaves_out() -> None:
    policy = {
        "CQ001": RulePolicy(ignore=True), "CP003": RulePolicy(preen=False), "IX001": RulePolicy(max_count=1),
    }  # fmt: skip
    assert ignored_rules(policy) == ("CQ001",)
    assert unpreened_rules(policy) == {"CP003"}
