"""What can be changed in a function: each change is one that a slip of the hand could have made.

Strings are left as they are, most of them being words for people; so are annotations, decorators, assertions
and the arguments of `isinstance` and `cast`, which say what a thing is and not what happens.

What a change takes out of work stays in the tree, behind a condition that is never true. So a generator stays
a generator, and a function keeps the variables of the function around it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef

COMPARISONS: dict[type[ast.cmpop], tuple[str, type[ast.cmpop]]] = {
    ast.Lt: ("< to <=", ast.LtE),
    ast.LtE: ("<= to <", ast.Lt),
    ast.Gt: ("> to >=", ast.GtE),
    ast.GtE: (">= to >", ast.Gt),
    ast.Eq: ("== to !=", ast.NotEq),
    ast.NotEq: ("!= to ==", ast.Eq),
    ast.In: ("in to not in", ast.NotIn),
    ast.NotIn: ("not in to in", ast.In),
    ast.Is: ("is to is not", ast.IsNot),
    ast.IsNot: ("is not to is", ast.Is),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, type[ast.operator]]] = {
    ast.Add: ("+ to -", ast.Sub),
    ast.Sub: ("- to +", ast.Add),
    ast.Mult: ("* to //", ast.FloorDiv),
    ast.FloorDiv: ("// to *", ast.Mult),
    ast.Mod: ("% to //", ast.FloorDiv),
    ast.LShift: ("<< to >>", ast.RShift),
    ast.RShift: (">> to <<", ast.LShift),
    ast.BitAnd: ("& to |", ast.BitOr),
    ast.BitOr: ("| to &", ast.BitAnd),
    ast.BitXor: ("^ to |", ast.BitOr),
}
"""No division: most are of paths, where nothing else would run at all."""

LOGIC: dict[type[ast.boolop], tuple[str, type[ast.boolop]]] = {
    ast.And: ("and to or", ast.Or),
    ast.Or: ("or to and", ast.And),
}
EMPTY = {
    "bool": "False", "int": "0", "str": "''", "bytes": "b''",
    "list": "[]", "Sequence": "()", "tuple": "()", "dict": "{}", "Mapping": "{}", "set": "set()",
    "frozenset": "frozenset()", "Iterator": "iter(())", "Iterable": "()",
}  # fmt: skip
"""What is nothing of the type that a function is said to return; of any other type, None is."""

_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "ctx", "op", "ops"}
_SKIPPED_NODES = (ast.JoinedStr, ast.Assert, ast.ClassDef)
_OF_TYPES = {"isinstance", "issubclass", "cast", "TypeVar"}
_GENERIC = {
    "list",
    "dict",
    "set",
    "tuple",
    "frozenset",
    "deque",
    "defaultdict",
    "Counter",
    "Callable",
    "type",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that a function offers: its name, its line, and what makes it, in the tree that it is of."""

    operator: str
    line: int
    apply: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a node hangs in a tree: in a field of its parent, or at a place of a list there."""

    owner: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


def offers(function: Function) -> Iterator[Offer]:
    """All changes of the body of a function, always in the same order."""
    for number, statement in enumerate(function.body):
        yield from _offers(statement, _Slot(function, "body", number), function)


def _offers(node: ast.AST, slot: _Slot, function: Function) -> Iterator[Offer]:
    if isinstance(node, _SKIPPED_NODES):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_TYPES:
        return
    yield from _own(node, slot, function)
    if isinstance(node, Function):
        function = node
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED_FIELDS or (field == "slice" and _is_generic(node)):
            continue
        if isinstance(value, ast.AST):
            yield from _offers(value, _Slot(node, field, None), function)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _offers(item, _Slot(node, field, number), function)


def _own(node: ast.AST, slot: _Slot, function: Function) -> Iterator[Offer]:
    """The changes of a node itself, not of what is below it."""
    match node:
        case ast.Compare():
            for number, operator in enumerate(node.ops):
                name, other = COMPARISONS[type(operator)]
                yield Offer(name, node.lineno, _setting(node.ops, number, other()))
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield Offer(
                f"{value} to {value + 1}", node.lineno, lambda: slot.put(_at(node, ast.Constant(value + 1)))
            )
        case ast.BoolOp():
            name, logic = LOGIC[type(node.op)]
            yield Offer(name, node.lineno, lambda: setattr(node, "op", logic()))
        case ast.UnaryOp(op=ast.Not()):
            yield Offer("not dropped", node.lineno, lambda: slot.put(node.operand))
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC and not _is_of_text(node):
            name, arithmetic = ARITHMETIC[type(node.op)]
            yield Offer(name, node.lineno, lambda: setattr(node, "op", arithmetic()))
    yield from _of_conditions(node)
    yield from _of_statements(node, slot, function)


def _of_conditions(node: ast.AST) -> Iterator[Offer]:
    match node:
        case ast.If() | ast.IfExp():
            yield Offer("always true", node.lineno, lambda: setattr(node, "test", _always(node.test)))
            yield Offer("always false", node.lineno, lambda: setattr(node, "test", _never(node.test)))
        case ast.While():  # one that is always true would be a hang, and no more
            yield Offer("always false", node.lineno, lambda: setattr(node, "test", _never(node.test)))
        case ast.comprehension():
            for number, test in enumerate(node.ifs):
                yield Offer("always true", test.lineno, _setting(node.ifs, number, _always(test)))
                yield Offer("always false", test.lineno, _setting(node.ifs, number, _never(test)))


def _of_statements(node: ast.AST, slot: _Slot, function: Function) -> Iterator[Offer]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() | ast.Await()) | ast.AugAssign():
            dropped = ast.If(test=ast.Constant(False), body=[node], orelse=[])
            yield Offer("statement dropped", node.lineno, lambda: slot.put(_at(node, dropped)))
        case ast.Return(value=ast.expr() as value):
            empty = _empty_of(function, value)
            if empty is not None:
                instead = ast.IfExp(ast.Constant(True), ast.parse(empty, mode="eval").body, value)
                yield Offer(
                    f"returns {empty}", node.lineno, lambda: setattr(node, "value", _at(value, instead))
                )


def _empty_of(function: Function, value: ast.expr) -> str | None:
    """What is returned instead of a value, None where that is what is returned."""
    said = ast.unparse(function.returns).strip("'\"") if function.returns else ""
    empty = EMPTY.get(said.partition("[")[0], "None") if " | " not in said else "None"
    if ast.unparse(value) != empty:
        return empty
    return "True" if empty == "False" else None


def _always(test: ast.expr) -> ast.expr:
    return _at(test, ast.BoolOp(ast.Or(), [ast.Constant(True), test]))


def _never(test: ast.expr) -> ast.expr:
    return _at(test, ast.BoolOp(ast.And(), [ast.Constant(False), test]))


def _setting(items: list[ast.cmpop] | list[ast.expr], number: int, item: ast.AST) -> Callable[[], None]:
    def change() -> None:
        items[number] = item  # type: ignore[call-overload]

    return change


def _is_generic(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _GENERIC


def _is_of_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether a string is put together, as far as one can see, or a type with None."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | None))
        for side in sides
    )


def _at(place: ast.AST, node: Node) -> Node:
    """The node and all new ones below it, at the place of another."""
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)
