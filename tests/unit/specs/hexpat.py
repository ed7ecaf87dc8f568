"""An evaluator of the part of ImHex's pattern language that `specs/imhex.py` uses; anything else is an error.

It follows the language where that is unlike Python: both sides of `&&` and `||` are evaluated, numbers are
signed or unsigned with 128 bits, a comparison takes the signedness of its left side, a variable cuts off what
does not fit its type, no value or array may reach beyond the data, and an array of a `static` type places one
element before it counts them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

RESERVED = frozenset(
    (
        "struct", "union", "using", "enum", "bitfield", "unsigned", "signed", "le", "be", "if", "else", "for",
        "match", "parent", "this", "while", "fn", "return", "namespace", "in", "out", "break", "continue",
        "ref", "null", "const", "try", "catch", "import", "as", "is", "from", "true", "false", "sizeof",
        "addressof", "typenameof", "padding", "str", "auto", "bool", "char", "char16", "float", "double",
    )
)  # fmt: skip
_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*)|(?P<directive>#[^\n]*)|(?P<text>\"(?:[^\"\\\n]|\\[\"\\])*\")"
    r"|(?P<number>0x[0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>::|\[\[|\]\]|==|!=|<=|>=|&&|\|\||[-+*/&!<>=@$.,;:(){}\[\]])"
)
_DIRECTIVE = re.compile(
    r"#include <std/mem\.pat>|#pragma (?:author|description) .+|#pragma endian big"
    r"|#pragma (?:array|pattern)_limit 0x[0-9a-f]+"
)
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("&",), ("+", "-"), ("*", "/"))
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "&": operator.and_, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": operator.floordiv,
}  # fmt: skip
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
_TYPES = {f"{sign}{bits}": (bits, sign == "s") for sign in "us" for bits in (8, 16, 32, 64, 128)}


class PatternError(Exception):
    """What ImHex would show instead of the fields."""


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    signed: bool


def number(value: int, signed: bool, bits: int = 128) -> Number:
    value &= (1 << bits) - 1
    return Number(value - (1 << bits) if signed and value >> bits - 1 else value, signed)


@dataclass(slots=True)
class Placed:
    """A field: where it lies, and a number, the bytes of an array of bytes, its members or its elements."""

    start: int
    end: int
    value: Any
    signed: bool = False

    def plain(self) -> Any:
        """Numbers, bytes, lists and dictionaries."""
        if isinstance(self.value, dict):
            return {name: member.plain() for name, member in self.value.items()}
        return [item.plain() for item in self.value] if isinstance(self.value, list) else self.value


@dataclass(frozen=True, slots=True)
class Units:
    """The elements of an array of a static type, which are placed when they are asked for."""

    count: int
    unit: Callable[[int], Placed]


class _ReturnError(Exception):
    def __init__(self, value: Number) -> None:
        self.value = value


@dataclass(slots=True)
class Run:
    """The state of an evaluation."""

    data: bytes
    pos: int = 0
    scopes: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    members: list[dict[str, Placed]] = field(default_factory=lambda: [{}])
    static: set[str] = field(default_factory=set)
    structs: dict[str, list[Statement]] = field(default_factory=dict)
    functions: dict[str, tuple[list[tuple[str, str]], list[Statement]]] = field(default_factory=dict)

    def look_up(self, name: str) -> Any:
        for scope in (self.scopes[-1], self.scopes[0]):
            if name in scope:
                return scope[name]
        raise PatternError(f"unknown name {name}")

    def read(self, start: int, size: int) -> bytes:
        if start < 0 or size < 0 or start + size > len(self.data):
            raise PatternError(f"{size} bytes at {start} reach beyond the data")
        return self.data[start : start + size]


Statement = Callable[[Run], None]
Expression = Callable[[Run], Number]


def _as_number(found: Any) -> Number:
    if isinstance(found, Placed) and isinstance(found.value, int):
        return Number(found.value, found.signed)
    if not isinstance(found, Number):
        raise PatternError(f"no number: {found!r}")
    return found


def _calculated(sign: str, left: Number, right: Number) -> Number:
    if sign in ("&&", "||"):
        found = (left.value and right.value) if sign == "&&" else (left.value or right.value)
        return Number(int(bool(found)), False)
    if sign in _COMPARISONS:
        return Number(int(_OPERATORS[sign](left.value, number(right.value, left.signed).value)), False)
    signed = left.signed and right.signed
    if sign == "-" and not (left.signed or right.signed) and left.value < right.value:
        signed = True
    if sign == "/" and right.value == 0:
        raise PatternError("division by zero")
    sides = (number(side.value, signed).value for side in (left, right))
    return number(_OPERATORS[sign](*sides), signed)


def _placed(run: Run, kind: str) -> Placed:
    start = run.pos
    if kind in _TYPES or kind == "char":
        bits, signed = _TYPES.get(kind, (8, False))
        run.pos += bits // 8
        return Placed(
            start, run.pos, int.from_bytes(run.read(start, bits // 8), "big", signed=signed), signed
        )
    if kind not in run.structs:
        raise PatternError(f"unknown type {kind}")
    run.scopes.append({})
    run.members.append({})
    for statement in run.structs[kind]:
        statement(run)
    run.scopes.pop()
    return Placed(start, run.pos, run.members.pop())


def _elements(run: Run, kind: str, size: Expression, is_loop: bool) -> Placed:
    start, width = run.pos, 0
    if is_static := kind in _TYPES or kind == "char" or kind in run.static:
        width = _placed(run, kind).end - start
        run.pos = start
    count, found = 0, []
    wanted = None if is_loop else size(run).value
    while size(run).value if wanted is None else count < wanted and not is_static:
        count += 1
        if is_static:
            run.pos += width
        else:
            found.append(_placed(run, kind))
    if not is_static:
        return Placed(start, run.pos, found)
    count = count if wanted is None else wanted
    whole = run.read(start, count * width)
    run.pos = start + len(whole)
    if width == 1:
        return Placed(start, run.pos, whole)

    def unit(index: int) -> Placed:
        run.pos = start + index * width
        return _placed(run, kind)

    return Placed(start, run.pos, Units(count, unit))


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        pos = 0
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if match is None:
                raise PatternError(f"no token: {text[pos : pos + 20]!r}")
            pos = match.end()
            if match["directive"] and not _DIRECTIVE.fullmatch(match[0]):
                raise PatternError(match[0])
            if not (match["skip"] or match["directive"]):
                self.tokens.append(match[0])
        self.tokens.append("")
        self.at = 0

    def take(self, *wanted: str) -> str:
        token = self.tokens[self.at]
        if wanted and token not in wanted:
            raise PatternError(
                f"{token!r} where {wanted} belongs, after {self.tokens[self.at - 6 : self.at]}"
            )
        self.at += 1
        return token

    def next_is(self, *tokens: str) -> bool:
        return tuple(self.tokens[self.at : self.at + len(tokens)]) == tokens

    def name(self) -> str:
        name = self.take()
        if name in RESERVED or name in _TYPES or not name.isidentifier():
            raise PatternError(f"{name!r} is no name")
        return name

    def kind(self) -> str:
        return self.take() if self.tokens[self.at] in (*_TYPES, "char") else self.name()

    def attribute(self) -> str:
        """`static`, `comment`, or nothing."""
        if not self.next_is("[["):
            return ""
        self.take("[[")
        name = self.take("static", "comment")
        if name == "comment":
            self.take("(")
            if not self.take().startswith('"'):
                raise PatternError("a comment without text")
            self.take(")")
        self.take("]]")
        return name

    def program(self, run: Run) -> list[Statement]:
        statements: list[Statement] = []
        while not self.next_is(""):
            if self.next_is("struct"):
                self.take()
                name = self.name()
                run.structs[name] = self.block()
                if self.attribute() == "static":
                    run.static.add(name)
                self.take(";")
            elif self.next_is("fn"):
                self.take()
                name = self.name()
                self.take("(")
                parameters = []
                if not self.next_is(")"):
                    parameters.append((self.kind(), self.name()))
                self.take(")")
                run.functions[name] = (parameters, self.block())
                self.take(";")
            else:
                statements.append(self.statement())
        return statements

    def block(self) -> list[Statement]:
        self.take("{")
        statements = []
        while not self.next_is("}"):
            statements.append(self.statement())
        self.take("}")
        return statements

    def statement(self) -> Statement:
        if self.next_is("if"):
            return self.branch()
        if self.next_is("return"):
            self.take()
            result = self.expression()
            self.take(";")
            return lambda run: _return(result(run))
        if self.tokens[self.at + 1] == "=":
            name = self.name()
            self.take("=")
            return self.assignment(None, name)
        kind, name = self.kind(), self.name()
        if self.next_is("="):
            self.take()
            return self.assignment(kind, name)
        return self.declaration(kind, name)

    def branch(self) -> Statement:
        self.take("if")
        self.take("(")
        condition = self.expression()
        self.take(")")
        then, other = self.block(), []
        if self.next_is("else"):
            self.take()
            other = self.block()

        def execute(run: Run) -> None:
            for statement in then if condition(run).value else other:
                statement(run)

        return execute

    def assignment(self, kind: str | None, name: str) -> Statement:
        expression = self.expression()
        self.take(";")

        def execute(run: Run) -> None:
            scope = run.scopes[-1]
            if kind is not None:
                if name in scope and len(run.scopes) == 1:
                    return  # what the caller set
                bits, signed = _TYPES[kind]
                scope[name] = (number(expression(run).value, signed, bits), bits)
            else:
                old, bits = scope[name]
                scope[name] = (number(expression(run).value, old.signed, bits), bits)

        return execute

    def declaration(self, kind: str, name: str) -> Statement:
        size: Expression | None = None
        place: Expression | None = None
        is_loop = False
        if self.next_is("["):
            self.take()
            is_loop = self.next_is("while")
            if is_loop:
                self.take()
            size = self.expression()
            self.take("]")
        if self.next_is("@"):
            self.take()
            place = self.expression()
        self.attribute()
        self.take(";")

        def execute(run: Run) -> None:
            if place is not None:
                run.pos = place(run).value
            found = _placed(run, kind) if size is None else _elements(run, kind, size, is_loop)
            if name in run.members[-1]:
                raise PatternError(f"two members {name}")
            run.members[-1][name] = run.scopes[-1][name] = found

        return execute

    def expression(self, level: int = 0) -> Expression:
        if level == len(_LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.tokens[self.at] in _LEVELS[level]:
            left = _binary(self.take(), left, self.expression(level + 1))
        return left

    def unary(self) -> Expression:
        if self.next_is("!"):
            self.take()
            operand = self.unary()
            return lambda run: Number(int(not operand(run).value), False)
        if self.next_is("-"):
            self.take()
            operand = self.unary()
            return lambda run: number(-operand(run).value, True)
        return self.primary()

    def primary(self) -> Expression:
        token = self.tokens[self.at]
        if token == "(":
            self.take()
            inner = self.expression()
            self.take(")")
            return inner
        if token[0].isdigit():
            literal = Number(int(self.take(), 0), True)
            return lambda _: literal
        if token in ("true", "false"):
            truth = Number(int(self.take() == "true"), False)
            return lambda _: truth
        if token == "$":
            self.take()
            return lambda run: Number(run.pos, False)
        if token == "sizeof":
            for part in ("sizeof", "(", "$", ")"):
                self.take(part)
            return lambda run: Number(len(run.data), False)
        return self.named()

    def named(self) -> Expression:
        path = self.name()
        while self.next_is("::"):
            path += self.take() + self.name()
        if self.next_is("("):
            return self.call(path)
        parts = path.split("::")
        while self.next_is("."):
            self.take()
            parts.append(self.name())

        def value(run: Run) -> Number:
            found = run.look_up(parts[0])
            for part in parts[1:]:
                found = found.value[part]
            return _as_number(found[0] if isinstance(found, tuple) else found)

        if "::" in path:
            if path != "std::mem::Endian::Big":
                raise PatternError(path)
            return lambda _: Number(1, False)
        return value

    def call(self, path: str) -> Expression:
        self.take("(")
        arguments: list[Expression] = []
        while not self.next_is(")"):
            arguments.append(self.expression())
            if not self.next_is(")"):
                self.take(",")
        self.take(")")

        def value(run: Run) -> Number:
            values = [argument(run) for argument in arguments]
            if path == "std::mem::eof" and not values:
                return Number(int(run.pos >= len(run.data)), False)
            if path == "std::mem::read_unsigned" and len(values) == 3:
                return Number(int.from_bytes(run.read(values[0].value, values[1].value), "big"), False)
            if path not in run.functions:
                raise PatternError(f"unknown function {path}")
            return _called(run, path, values)

        return value


def _binary(sign: str, left: Expression, right: Expression) -> Expression:
    return lambda run: _calculated(sign, left(run), right(run))


def _return(value: Number) -> None:
    raise _ReturnError(value)


def _called(run: Run, name: str, values: list[Number]) -> Number:
    parameters, body = run.functions[name]
    scope = {}
    for (kind, parameter), value in zip(parameters, values, strict=True):
        bits, signed = _TYPES[kind]
        scope[parameter] = (number(value.value, signed, bits), bits)
    run.scopes.append(scope)
    try:
        for statement in body:
            statement(run)
    except _ReturnError as done:
        return done.value
    finally:
        run.scopes.pop()
    raise PatternError(f"{name} returns nothing")


def evaluate(text: str, data: bytes, **edited: int) -> dict[str, Placed]:
    """The variables that a pattern places over the data; `edited` are global numbers that a user sets.

    PatternError for what is no part of the subset, or reaches beyond the data.
    """
    run = Run(data)
    statements = _Parser(text).program(run)
    run.scopes[0] |= {name: (Number(value, False), 64) for name, value in edited.items()}
    for statement in statements:
        statement(run)
    return run.members[0]
