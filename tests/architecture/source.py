"""The modules of the package as text and as trees, each read once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "rocketfsck"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
assert len(MODULES) > 100, "or the tests of the architecture look at nothing"


@cache
def text_of(module: str) -> str:
    return (SOURCE / module).read_text("utf-8")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(text_of(module), module)


@cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree, as `ast.walk` gives them."""
    return tuple(ast.walk(tree_of(module)))
