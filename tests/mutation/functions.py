"""The functions of a source: as trees, as code, and as objects of this process whose code can be replaced.

A function is what a module or a class has by name; what is defined inside of it belongs to it, and its code
is replaced with it. Kernels are left out: a compiler has read them before their code could be replaced.
"""

from __future__ import annotations

import ast
import gc
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.operators import Function

KERNELS = {"entry", "short_entry", "helper", "inlined", "overload", "abstractmethod"}
"""Decorators of what a compiler reads, and of what has no body."""


@dataclass(frozen=True, slots=True)
class Source:
    """A directory of Python, `src/rocketfsck`, and its packages whose functions are changed."""

    root: Path
    packages: tuple[str, ...]

    def modules(self) -> list[str]:
        """The modules of the packages, as paths below the root: `formats/layout.py`."""
        found = [path for package in self.packages for path in (self.root / package).rglob("*.py")]
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def tree(self, module: str) -> ast.Module:
        """The module's tree, new at each call: a change is made in it."""
        path = self.root / module
        return ast.parse(path.read_text("utf-8"), str(path))

    def file(self, module: str) -> str:
        """The module's file as its code names it."""
        return str((self.root / module).resolve())

    def import_name(self, module: str) -> str:
        """The name by which the module is imported."""
        parts = [self.root.name, *module.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def import_all(self) -> None:
        """Import every module: whatever is computed there is computed by unchanged functions."""
        for module in self.modules():
            importlib.import_module(self.import_name(module))


def functions_of(tree: ast.Module) -> dict[tuple[str, int], Function]:
    """The functions of a module by qualified name and first line, which is that of the first decorator."""
    return dict(_functions(tree, ""))


def _functions(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[tuple[str, int], Function]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, Function) and not KERNELS & {_last(item) for item in node.decorator_list}:
            line = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            yield (f"{prefix}{node.name}", line), node


def _last(decorator: ast.expr) -> str:
    """The last name of a decorator: `entry` of `@jit.entry(cache=True)`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def code_of(tree: ast.Module, file: str, wanted: tuple[str, int]) -> CodeType | None:
    """The code of one function of a tree, found in the code of the whole; None where it is not there."""
    return codes_of(tree, file).get(wanted)


def codes_of(tree: ast.Module, file: str) -> dict[tuple[str, int], CodeType]:
    """The code of all functions of a tree by qualified name and first line."""
    found: dict[tuple[str, int], CodeType] = {}
    waiting = [compile(tree, file, "exec", dont_inherit=True)]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, CodeType):
                found[constant.co_qualname, constant.co_firstlineno] = constant
                waiting.append(constant)
    return found


def living(files: Sequence[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """The functions of this process that come from these files, by file, qualified name and first line."""
    wanted = set(files)
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for item in gc.get_objects():
        if type(item) is FunctionType and item.__code__.co_filename in wanted:
            code = item.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(item)
    return found


def fits(function: FunctionType, code: CodeType) -> bool:
    """Whether a function can have this code: it must have the same variables of a function around it."""
    return function.__code__.co_freevars == code.co_freevars


def replace(functions: Mapping[FunctionType, CodeType]) -> None:
    """Give functions other code, for as long as this process lives."""
    for function, code in functions.items():
        function.__code__ = code
