"""The tool for mutation testing, tried on a small source that is made here."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.calls import Calls, read_calls
from tests.mutation.functions import Source, code_of, codes_of, functions_of
from tests.mutation.mutants import Mutant, all_mutants, draw, mutated_code
from tests.mutation.operators import offers
from tests.mutation.running import Outcome
from tests.mutation.summary import page, share, text

ROOT = Path(__file__).parents[2]

SURROUNDINGS = {
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # importing them all would take longer than the rest
    "PYTEST_ADDOPTS": "-p xdist.plugin",
}

SUMS = '''\
"""Sums."""


class Sum:
    """What is added up."""

    def __init__(self, first: int) -> None:
        self.total = first

    def add(self, value: int) -> None:
        """Add a value, unless there is nothing to add."""
        if value > 0:
            self.total += value


class Least(Sum):
    def add(self, value: int) -> None:
        super().add(value)


def each(values):
    limit = len(values)

    def known():
        return limit

    for value in values:
        yield value, known()


def unused(value):
    return not value
'''
LOOPS = """\
def down(count: int) -> int:
    while count:
        count -= 1
    return count
"""
TESTS = """\
from toy.part.loops import down
from toy.part.sums import Least, Sum, each


def test_sum():
    made = Sum(1)
    made.add(2)
    assert made.total == 3


def test_least():
    least = Least(1)
    least.add(3)
    assert least.total == 4


def test_each():
    list(each([1, 2]))


def test_down():
    assert down(5) == 0
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a source, its tests, and the settings of pytest for them."""
    directory = tmp_path_factory.mktemp("toy")
    part = directory / "toy" / "part"
    part.mkdir(parents=True)
    for place in (part.parent, part):
        (place / "__init__.py").write_text("")
    (part / "sums.py").write_text(SUMS)
    (part / "loops.py").write_text(LOOPS)
    (directory / "test_toy.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    return directory


def _run(toy: Path, *options: str) -> str:
    """Run the tool in a process of its own; what it prints."""
    given = ["--source", "toy", "--packages", "part", "--tests", "test_toy.py", "--calls", "calls.json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *given, "--jobs", "2", *options],
        cwd=toy,
        env=os.environ | SURROUNDINGS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(toy: Path) -> str:
    return _run(toy, "--count", "1000", "--only", "part/sums.py", "--write", "page.md")


def _changed(source: str) -> dict[str, str]:
    """The changes of the only function of a source, and what its body becomes by each."""
    names = [
        offer.operator for function in functions_of(ast.parse(source)).values() for offer in offers(function)
    ]
    changed = {}
    for number, name in enumerate(names):
        tree = ast.parse(source)
        (function,) = functions_of(tree).values()
        list(offers(function))[number].apply()
        compile(tree, "made", "exec")
        changed[name] = "\n".join(ast.unparse(statement) for statement in function.body)
    return changed


@pytest.mark.parametrize(
    ("before", "operator", "after"),
    [
        ("a < b", "< to <=", "a <= b"),
        ("a == b", "== to !=", "a != b"),
        ("a in b", "in to not in", "a not in b"),
        ("a is None", "is to is not", "a is not None"),
        ("a and b", "and to or", "a or b"),
        ("not a", "not dropped", "a"),
        ("a + b", "+ to -", "a - b"),
        ("a // b", "// to *", "a * b"),
        ("a & b", "& to |", "a | b"),
        ("a[7]", "7 to 8", "a[8]"),
        ("[a for a in b if a]", "always false", "[a for a in b if False and a]"),
        ("a if b else c", "always true", "a if True or b else c"),
    ],
)
def test_an_operator_does_what_it_says(before: str, operator: str, after: str) -> None:
    assert _changed(f"def f(a, b, c):\n    x = {before}")[operator] == f"x = {after}"


@pytest.mark.parametrize(
    ("before", "operator", "after"),
    [
        ("a(b)", "statement dropped", "if False:\n    a(b)"),
        ("yield a", "statement dropped", "if False:\n    yield a"),
        ("a += b", "statement dropped", "if False:\n    a += b"),
        ("a += b", "+ to -", "a -= b"),
        ("while a:\n        b()", "always false", "while False and a:\n    b()"),
        ("if a:\n        b()", "always true", "if True or a:\n    b()"),
        ("return a", "returns False", "return False if True else a"),
    ],
)
def test_a_statement_is_changed(before: str, operator: str, after: str) -> None:
    assert _changed(f"def f(a, b) -> bool:\n    {before}")[operator] == after


@pytest.mark.parametrize(
    ("said", "value", "operator"),
    [
        ("list[int]", "a", "returns []"),
        ("tuple[int, ...]", "a", "returns ()"),
        ("int | None", "a", "returns None"),
        ("Store", "a", "returns None"),
        ("bool", "False", "returns True"),
    ],
)
def test_nothing_is_returned_of_the_type_that_is_said(said: str, value: str, operator: str) -> None:
    assert list(_changed(f"def f(a) -> {said}:\n    return {value}")) == [operator]


@pytest.mark.parametrize(
    "body",
    [
        '"""Words."""',
        "x: dict[str, int | None] = a",
        "x = f'{a + 1} bytes'",
        "x = a + 'bytes'",
        "x = isinstance(a, int | None)",
        "assert a > 1",
        "return None",
        "x = a / 'config'",
        "return",
    ],
)
def test_what_says_no_deed_is_left_as_it_is(body: str) -> None:
    assert _changed(f"def f(a) -> Store:\n    {body}") == {}


def test_kernels_are_left_out() -> None:
    kernels = "@entry\ndef f(a):\n    return a\n\n@jit.helper(cache=True)\ndef g(a):\n    return a\n"
    assert functions_of(ast.parse(kernels)) == {}


def test_code_is_found_by_name_and_line() -> None:
    source = "class A:\n    @property\n    def f(self):\n        return [1 for _ in self]\n"
    tree = ast.parse(source)
    assert list(functions_of(tree)) == [("A.f", 2)]
    code = code_of(tree, "made.py", ("A.f", 2))
    assert code is not None
    assert (code.co_name, code.co_filename) == ("f", "made.py")
    assert code_of(tree, "made.py", ("A.g", 2)) is None


def test_a_sample_is_the_same_for_a_seed(toy: Path) -> None:
    source = Source(toy / "toy", ("part",))
    everything = list(all_mutants(source))
    assert draw(source, 5, 1) == draw(source, 5, 1) != draw(source, 5, 2)
    assert sorted(map(str, draw(source, 1000, 3))) == sorted(map(str, everything))


def test_changed_code_has_the_variables_around_it(toy: Path) -> None:
    """Also where the change takes away the only use of one: `super()` is such a use."""
    source = Source(toy / "toy", ("part",))
    mutants = [mutant for mutant in all_mutants(source) if mutant.function == "Least.add"]
    assert [mutant.operator for mutant in mutants] == ["statement dropped"]
    plain = codes_of(source.tree("part/sums.py"), source.file("part/sums.py"))
    code = mutated_code(source, mutants[0])
    assert code is not None
    assert code.co_freevars == plain["Least.add", mutants[0].first_line].co_freevars == ("__class__",)
    assert code.co_code != plain["Least.add", mutants[0].first_line].co_code


def test_calls_are_noted(toy: Path, shown: str) -> None:
    assert shown
    calls = read_calls(toy / "calls.json")
    tests = {test.partition("::")[2]: called for test, called in calls.called.items()}
    assert {test: {name.partition(":")[2] for name in called} for test, called in tests.items()} == {
        "test_sum": {"Sum.__init__", "Sum.add"},
        "test_least": {"Sum.__init__", "Sum.add", "Least.add"},
        "test_each": {"each"},
        "test_down": {"down"},
    }
    assert "part/sums.py:unused" in calls.functions
    assert all(seconds > 0 for seconds in calls.seconds.values())


def test_what_no_test_sees_survives(shown: str, toy: Path) -> None:
    survived = shown.partition("survived: ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [line.split("  [")[0].strip() for line in survived] == [
        "part/sums.py:12: always true: if value > 0:",
        "part/sums.py:12: > to >=: if value > 0:",
        "part/sums.py:12: 0 to 1: if value > 0:",
        "part/sums.py:25: returns None: return limit",
        "part/sums.py:28: statement dropped: yield value, known()",
    ]
    written = (toy / "page.md").read_text()
    assert "| part/sums.py:12 | `always true` | `if value > 0:` | 2 of 2 |" in written


def test_what_a_test_sees_is_killed(shown: str) -> None:
    head, row, _ = (re.split(r"  +", line) for line in shown.splitlines()[:3])
    counts = dict(zip(head, row, strict=True))
    assert (counts["mutants"], counts["killed"], counts["survived"], counts["not covered"]) == (
        "11", "4", "5", "2",
    )  # fmt: skip
    assert (counts["package"], counts["share killed"]) == ("part", "44.4 %")


def test_what_no_test_calls_is_said(shown: str) -> None:
    assert "not covered: 2\n" in shown
    assert "part/sums.py:32: not dropped: return not value" in shown


def test_a_hang_is_a_kill(toy: Path, shown: str) -> None:
    assert shown, "the calls are in their file"
    hung = _run(toy, "--count", "1000", "--only", "part/loops.py", "--patience", "1")
    head, row, _ = (re.split(r"  +", line) for line in hung.splitlines()[:3])
    assert int(dict(zip(head, row, strict=True))["hung"]) >= 3
    survived = [line.split("  [")[0].strip() for line in hung.splitlines() if line.startswith("  ")]
    assert survived in ([], ["part/loops.py:4: returns 0: return count"]), "0 is what the loop leaves"


def test_tests_are_chosen_by_their_seconds() -> None:
    called = {name: frozenset({"a.py:f"}) for name in ("slow", "quick", "middle")} | {
        "other": frozenset[str]()
    }
    calls = Calls(frozenset({"a.py:f"}), {"slow": 9.0, "quick": 0.5, "middle": 2.0, "other": 0.1}, called)
    assert calls.chosen("a.py:f", 3) == ["quick", "middle"]
    assert calls.chosen("a.py:f", 0.1) == ["quick"]
    assert calls.chosen("a.py:f", 60) == ["quick", "middle", "slow"]
    assert calls.chosen("a.py:g", 60) == []


def test_shares_are_of_what_was_judged() -> None:
    mutant = Mutant("part/a.py", "f", 1, 0, 2, "| to &", "return a | b")
    outcomes = [Outcome(mutant, "killed"), Outcome(mutant, "hung"), Outcome(mutant, "survived", 1, 4)]
    assert share([*outcomes, Outcome(mutant, "not covered"), Outcome(mutant, "broken")]) == "66.7 %"
    assert share([Outcome(mutant, "left out")]) == "-"
    assert "part/a.py:2: | to &: return a | b  [1 of 4 tests]" in text(outcomes)
    assert r"| part/a.py:2 | `\| to &` | `return a \| b` | 1 of 4 |" in page(outcomes, ["seed 1"])
