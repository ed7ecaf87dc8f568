"""The language of `query scan`: comparisons of a message's fields, joined by and, or, not.

    expression := all ("or" all)*
    all        := one ("and" one)*
    one        := "not" one | "(" expression ")" | field [test]
    test       := ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains") value
                | ("~" | "!~") pattern | "in" "(" value ("," value)* ")"
    field      := name | "properties." name | "properties[" string "]"
    value      := number | string | x"hex digits"          pattern := string | /regular expression/flags

Nothing is run: an expression becomes a tree of comparisons (`parse`), and every mistake in it is a
`ExpressionError` with its position. A field alone asks whether the message has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rocketfsck.common.wording import parse_date
from rocketfsck.errors import UsageError
from rocketfsck.formats.columns import DERIVED, NUMBERS
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN

MAX_LENGTH = 1 << 16
MAX_DEPTH = 100

Kind = Literal["int", "time", "text", "words", "bytes"]
Value = int | str | bytes

_KINDS: dict[str, Kind] = {"i4": "int", "i8": "int", "text": "text", "words": "words", "bytes": "bytes"}

FIELDS: dict[str, Kind] = {
    "topic": "text",
    **{column.name: "time" if column.unit == "ms" else _KINDS[column.kind] for column in NUMBERS},
    "offset": "int",
    **{column.name: _KINDS[column.kind] for column in DERIVED if column.kind in _KINDS},
    "content": "bytes",
}
"""What a message has, by the names of the columns of `dump`. `offset` is where the record is in the commit
log; `content` is the body unpacked, where it is compressed (zlib, LZ4, zstd)."""

_ORDERED = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_OPERATORS: dict[Kind, frozenset[str]] = {
    "int": _ORDERED,
    "time": _ORDERED,
    "text": _ORDERED | {"~", "!~", "contains"},
    "words": frozenset({"==", "!=", "in", "~", "!~", "contains"}),
    "bytes": frozenset({"==", "!=", "~", "!~", "contains"}),
}
_KIND_NAMES = {
    "int": "a number",
    "time": "a time",
    "text": "text",
    "words": "a list of words",
    "bytes": "bytes",
}


class ExpressionError(UsageError):
    """A mistake in an expression. `pos` is the index of the character where it stands."""

    def __init__(self, message: str, text: str, pos: int) -> None:
        self.pos = pos
        self.text = text
        super().__init__(f"in the expression at character {pos + 1}: {message}")


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message; `property_name` is set for one of its properties."""

    name: str
    kind: Kind
    property_name: str | None = None


@dataclass(frozen=True, slots=True)
class Present:
    """Whether the message has the field: not None and not empty; for a number, not 0."""

    field: MessageField


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison with one value, `in` with several. "=" has become "=="."""

    field: MessageField
    operator: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """`~`, or with `negated` `!~`: the pattern is found somewhere in the field."""

    field: MessageField
    pattern: re.Pattern[str] | re.Pattern[bytes]
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    inner: Node


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]


Node = Present | Compare | Match | Not | And | Or

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    | (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+)(?![\w.]))
    | (?P<hex>x"[^"]*"|x'[^']*')
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<regex>/(?:[^/\\]|\\.)*/[a-z]*)
    | (?P<name>(?!x["'])[A-Za-z_]\w*)
    | (?P<sign>==|!=|<=|>=|!~|[=<>~(),.\[\]])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_WORDS = frozenset({"and", "or", "not", "in", "contains"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    pos: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def parse(text: str) -> Node:
    """The tree of an expression. Raises ExpressionError with the position of the first mistake."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH:,} characters", text, MAX_LENGTH)
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._split())
        self.at = 0

    def _split(self) -> list[_Token]:
        tokens = []
        pos = 0
        while pos < len(self.text):
            match = _TOKEN.match(self.text, pos)
            if match is None:
                character = self.text[pos]
                if character in "\"'/" or self.text[pos : pos + 2] in ('x"', "x'"):
                    raise self.error("the text that begins here has no end", pos)
                raise self.error(f"{character!r} has no meaning here", pos)
            kind = match.lastgroup or ""
            if kind != "blank":
                tokens.append(_Token(kind, match.group(), pos))
            pos = match.end()
        return [*tokens, _Token("end", "", len(self.text))]

    def error(self, message: str, pos: int) -> ExpressionError:
        return ExpressionError(message, self.text, pos)

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        found = self.token
        self.at += found.kind != "end"
        return found

    def accept(self, *texts: str) -> _Token | None:
        """The token if it is one of these signs or words."""
        if self.token.kind in ("sign", "name") and self.token.text in texts:
            return self.take()
        return None

    def expect(self, text: str) -> None:
        if self.accept(text) is None:
            raise self.error(f"{text!r} is missing before {self.token}", self.token.pos)

    def whole(self) -> Node:
        found = self.any_of(0)
        if self.token.kind != "end":
            raise self.error(f"{self.token} is not expected here", self.token.pos)
        return found

    def any_of(self, depth: int) -> Node:
        parts = [self.all_of(depth)]
        while self.accept("or"):
            parts.append(self.all_of(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def all_of(self, depth: int) -> Node:
        parts = [self.one(depth)]
        while self.accept("and"):
            parts.append(self.one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def one(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", self.token.pos)
        if self.accept("not"):
            return Not(self.one(depth + 1))
        if self.accept("("):
            found = self.any_of(depth + 1)
            self.expect(")")
            return found
        return self.test(self.field())

    def field(self) -> MessageField:
        token = self.take()
        if token.kind != "name" or token.text in _WORDS:
            raise self.error(f"a field is missing before {token}", token.pos)
        if token.text == "properties" and self.accept("."):
            name = self.take()
            if name.kind != "name":
                raise self.error("a property's name is missing", name.pos)
            return MessageField(f"properties.{name.text}", "text", name.text)
        if token.text == "properties":
            self.expect("[")
            name = self.take()
            if name.kind != "string":
                raise self.error("a property's name in quotes is missing", name.pos)
            self.expect("]")
            return MessageField(token.text, "text", self.string(name))
        if token.text not in FIELDS:
            from difflib import get_close_matches

            near = get_close_matches(token.text, FIELDS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; the fields are {', '.join(FIELDS)}"
            raise self.error(f"no field has the name {token.text!r}{hint}", token.pos)
        return MessageField(token.text, FIELDS[token.text])

    def test(self, field: MessageField) -> Node:
        start = self.token
        operator = self.accept("==", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "contains")
        if operator is None:
            return Present(field)
        name = "==" if operator.text == "=" else operator.text
        if name not in _OPERATORS[field.kind]:
            raise self.error(
                f"{field.name} is {_KIND_NAMES[field.kind]}: {operator.text} does not apply", start.pos
            )
        if name in ("~", "!~"):
            return Match(field, self.pattern(field), name == "!~")
        if name != "in":
            return Compare(field, name, (self.value(field),))
        self.expect("(")
        values = [self.value(field)]
        while self.accept(","):
            values.append(self.value(field))
        self.expect(")")
        return Compare(field, name, tuple(values))

    def value(self, field: MessageField) -> Value:
        token = self.take()
        if token.kind == "number" and field.kind in ("int", "time"):
            number = int(token.text, 0) if "x" in token.text.lower() else int(token.text[:25])
            if not INT64_MIN <= number <= INT64_MAX:
                raise self.error("the number does not fit 64 bits", token.pos)
            return number
        if token.kind == "string" and field.kind == "time":
            return self.time(token)
        if token.kind == "string" and field.kind in ("text", "words"):
            return self.string(token)
        if token.kind == "string" and field.kind == "bytes":
            return self.string(token).encode("utf-8", "surrogatepass")
        if token.kind == "hex" and field.kind == "bytes":
            try:
                return bytes.fromhex(token.text[2:-1])
            except ValueError:
                raise self.error("not pairs of hex digits", token.pos) from None
        raise self.error(f"{field.name} is {_KIND_NAMES[field.kind]} and not {token}", token.pos)

    def time(self, token: _Token) -> int:
        try:
            return parse_date(self.string(token))
        except ValueError:
            raise self.error("not a date like 2024-05-17T08:30:00", token.pos) from None

    def string(self, token: _Token) -> str:
        return _ESCAPE.sub(lambda match: _unescaped(match[1]), token.text[1:-1])

    def pattern(self, field: MessageField) -> re.Pattern[str] | re.Pattern[bytes]:
        token = self.take()
        flags = re.RegexFlag(0)
        if token.kind == "regex":
            source, _, letters = token.text[1:].rpartition("/")
            source = source.replace("\\/", "/")
            for letter in letters:
                if letter not in _FLAGS:
                    raise self.error(f"no flag has the name {letter!r}; the flags are i, m, s", token.pos)
                flags |= _FLAGS[letter]
        elif token.kind == "string":
            quote = token.text[0]
            source = token.text[1:-1].replace(f"\\{quote}", quote)
        else:
            raise self.error(f"a pattern is missing before {token}", token.pos)
        try:
            if field.kind == "bytes":
                return re.compile(source.encode("utf-8", "surrogatepass"), flags)
            return re.compile(source, flags)
        except (re.error, OverflowError, RecursionError) as error:
            place = token.pos + 1 + (getattr(error, "pos", 0) or 0)
            raise self.error(f"the pattern is wrong: {getattr(error, 'msg', error)}", place) from None


def _unescaped(code: str) -> str:
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
