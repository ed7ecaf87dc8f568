"""The shape of the source: modules that one can read at a sitting, each of which says what it is."""

from __future__ import annotations

import ast
import re

from tests.architecture.source import MODULES, SOURCE, nodes_of, text_of, tree_of

LEAST, MOST = 80, 520
SLACK = 40
"""How many lines a longer module may have less than its entry allows."""

LONG: dict[str, tuple[int, str]] = {}
"""Longer modules: how long each may get, and why it is one."""


MOST_BROKEN_IMPORTS = 34
"""Imports of ours that take several lines, outside of kernels: names are given on, or are the module's."""


def _lines(module: str) -> int:
    return len(text_of(module).splitlines())


def _is_code(module: str) -> bool:
    return not module.endswith(("__init__.py", "__main__.py", "_version.py"))


def test_a_module_is_read_at_a_sitting() -> None:
    """Split one that is too long, or say in LONG why it is one."""
    too_long = {
        module: lines for module in MODULES if (lines := _lines(module)) > LONG.get(module, (MOST, ""))[0]
    }
    assert too_long == {}


def test_exceptions_are_needed() -> None:
    """An entry goes when its module has the usual size again; its figure follows a module that shrinks."""
    stale = {
        module: (lines, most)
        for module, (most, _) in LONG.items()
        if not (lines := _lines(module) if module in MODULES else 0) > MOST or most - lines > SLACK
    }
    assert stale == {}
    assert [module for module, (_, reason) in LONG.items() if len(reason) <= 20] == []


def test_most_modules_are_of_the_wanted_size() -> None:
    """A short module may be a whole idea; many of them would be crumbs."""
    sizes = sorted(_lines(module) for module in MODULES if _is_code(module))
    short = [size for size in sizes if size < LEAST]
    assert len(short) * 3 <= len(sizes)
    assert sizes[0] >= 20
    assert LEAST <= sizes[len(sizes) // 2] <= MOST


def test_a_module_says_what_it_is() -> None:
    silent = []
    for module in MODULES:
        text = ast.get_docstring(tree_of(module)) or ""
        if not text.split("\n\n")[0].rstrip().endswith((".", ":", "?")):
            silent.append(module)
    assert silent == []


def test_the_parts_are_those_that_the_package_names() -> None:
    parts = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert parts - {"pipeline"} == {
        "cli", "commands", "common", "engine", "formats", "page", "query", "reader", "repair", "scan",
        "store", "testing", "verify", "writer",
    }  # fmt: skip


def test_rules_have_names() -> None:
    """No id is quoted in the source, and the parts that only read know no rules."""
    quoted = re.compile(r"[\"'](?:ST|CL|CQ|IX|CP|CF|KV|RK|TM|TS|XR)\d{3}[\"' ]")
    texts = {module: text_of(module) for module in MODULES}
    assert [module for module, text in texts.items() if quoted.search(text)] == ["common/rulenames.py"]
    reading = ("formats/", "store/", "scan/", "reader/", "engine/", "query/")
    assert [module for module in MODULES if module.startswith(reading) and "RuleName" in texts[module]] == []


def test_every_dataclass_has_a_name_of_its_own() -> None:
    """A name says what the thing is, wherever it is read."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in nodes_of(module):
            if isinstance(node, ast.ClassDef) and any(
                "dataclass" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                places.setdefault(node.name, []).append(module)
    assert len(places) > 100, "or nothing was looked at"
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_an_import_takes_a_line() -> None:
    """Import the module that gives more names than a line holds (ADR 0028)."""
    broken = [
        (module, node.module)
        for module in MODULES
        if not module.startswith(("scan/compiled/", "scan/machine/"))
        for node in nodes_of(module)
        if isinstance(node, ast.ImportFrom)
        and node.end_lineno != node.lineno
        and (node.module or "").startswith("rocketfsck.")
    ]
    assert len(broken) <= MOST_BROKEN_IMPORTS, broken
