"""Makes the table of the statements by which a broker logs about its store, out of the released sources.

    python -m tests.oracle.logstatements DIRECTORY

DIRECTORY holds the jars of sources, `rocketmq-store-5.5.0-sources.jar` and the like, as Maven copies them
(`dependency:copy` with the classifier `sources`): of store, broker, common and tiered-store. The table is
`src/rocketfsck/verify/logged/statements.tsv`; the number of statements by class goes to standard output.

A statement becomes a template: the literal parts of its message, with the expressions as holes. A hole
has the name of the expression, so that `mappedFile.getFileName()` is `{fileName}`.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).parents[2] / "src/rocketfsck/verify/logged/statements.tsv"
CALL = re.compile(r"\b(\w*(?:log|Log|LOG)\w*)\s*\.\s*(warn|error|info)\s*\(")
THROW = re.compile(r"\bthrow\s+new\s+((?:\w+\.)*\w*(?:Exception|Error))\s*\(")
CONSTANT = re.compile(r'\bString\s+(\w+)\s*=\s*("(?:[^"\\]|\\.)*"(?:\s*\+\s*"(?:[^"\\]|\\.)*")*)\s*;')
HEAD = re.compile(r"(?:class|interface|enum)\s+(\w+)")
METHOD = re.compile(r"(\w+)\s*\([^;{}]*\)\s*(?:throws\s+[\w\s,.]+)?$")
NOT_METHODS = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "synchronized",
    "try",
    "return",
    "new",
    "super",
    "this",
}
SKIPPED = {"getBrokerConfig", "toString", "get", "class"}

BROKER = (
    "BrokerController",
    "BrokerPathConfigHelper",
    "BrokerPreOnlineService",
    "BrokerStartup",
    "config/",
    "controller/",
    "dledger/",
    "filter/ConsumerFilterManager",
    "filter/CommitLogDispatcherCalcBitMap",
    "lite/AbstractLiteLifecycleManager",
    "lite/LiteLifecycleManager",
    "lite/RocksDBLiteLifecycleManager",
    "offset/",
    "pop/PopConsumerRocksdbStore",
    "pop/orderly/",
    "schedule/",
    "slave/",
    "subscription/",
    "topic/",
    "transaction/",
    "util/HookUtils",
)
COMMON = ("ConfigManager", "ServiceThread", "MixAll", "config/", "UtilAll")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of one version."""

    level: str
    place: str  # Class#method, nested classes with a dot
    template: str


def tokens_blanked(source: str) -> str:
    """The source with comments and the inside of literals blanked, of the same length."""
    out = list(source)
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\''
    for match in re.finditer(pattern, source, re.DOTALL):
        text = match.group()
        inside = slice(match.start() + 1, match.end() - 1) if text[0] in "\"'" else slice(*match.span())
        out[inside] = [c if c == "\n" else " " if text[0] == "/" else "_" for c in source[inside]]
    return "".join(out)


def owners(blanked: str) -> list[tuple[int, str, str]]:
    """The places from which on code belongs to a class and a method: position, class, method."""
    stack: list[tuple[str, str]] = []
    found, begin = [(0, "", "")], 0
    for at, mark in enumerate(blanked):
        if mark == ";" or mark == "}":
            if mark == "}" and stack:
                stack.pop()
                found.append((at + 1, *_owner(stack)))
            begin = at + 1
        elif mark == "{":
            head = blanked[begin:at].strip()
            named = HEAD.search(head)
            method = METHOD.search(head)
            if named and "(" not in head[: named.start()]:
                stack.append(("class", named[1]))
            elif (
                method
                and method[1] not in NOT_METHODS
                and not re.search(r"\bnew\s+[\w.<>]+\s*$", head[: method.end(1)])
            ):
                stack.append(("method", method[1]))
            else:
                stack.append(("", ""))
            found.append((at + 1, *_owner(stack)))
            begin = at + 1
    return found


def _owner(stack: list[tuple[str, str]]) -> tuple[str, str]:
    classes = ".".join(name for kind, name in stack if kind == "class")
    methods = [name for kind, name in stack if kind == "method"]
    return classes, methods[-1] if methods else ""


def arguments(source: str, blanked: str, opened: int) -> list[str]:
    """The arguments of a call, whose bracket is before `opened`."""
    depth, begin, found = 0, opened, []
    for at in range(opened, len(blanked)):
        mark = blanked[at]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0:
                found.append(source[begin:at])
                return [re.sub(r"\s*\n\s*", " ", item).strip() for item in found]
            depth -= 1
        elif mark == "," and depth == 0:
            found.append(source[begin:at])
            begin = at + 1
    return found


def split_sum(text: str) -> list[str]:
    """The summands of an expression."""
    blanked, depth, begin, found = tokens_blanked(text), 0, 0, []
    for at, mark in enumerate(blanked):
        depth += (mark in "([{") - (mark in ")]}")
        if depth == 0 and mark in "?":
            return [text]
        if depth == 0 and mark == "+" and blanked[at - 1] != "+" and blanked[at + 1 : at + 2] != "+":
            found.append(text[begin:at].strip())
            begin = at + 1
    return [*found, text[begin:].strip()]


def unescape(literal: str) -> str:
    return (
        literal.replace("\\n", " ")
        .replace("\\t", " ")
        .replace("\\r", " ")
        .replace('\\"', '"')
        .replace("\\\\", "\\")
    )


def hole_name(expression: str) -> str:
    """`mappedFile.getFileName()` is fileName, `System.currentTimeMillis() - begin` is elapsed."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    if "currentTimeMillis" in text or "elapsed" in text.lower():
        return "elapsed"
    text = re.sub(r"\((?:int|long|String|double)\)", "", text)
    names = [
        name
        for name in re.findall(r"[A-Za-z_]\w*", text.split(" - ")[0].split(" / ")[0])
        if name not in SKIPPED
    ]
    names = [name for name in names if not re.fullmatch(r"[A-Z]\w*", name) or name.isupper()] or names
    if not names:
        return "value"
    # a call with arguments says more by its own name
    last = names[-1]
    call = re.search(r"\.?(\w+)\((?=[^)])", text)
    if call and call[1] not in SKIPPED and not re.match(r"(valueOf|format|parse)", call[1]):
        last = call[1]
    last = re.sub(r"^(get|is)(?=[A-Z])", "", last)
    return last[0].lower() + last[1:] if not last.isupper() else last


def template_of(arguments_: list[str], constants: dict[str, str]) -> str | None:
    """The message of a call as a template; None for one without a literal part."""
    first, rest = arguments_[0], arguments_[1:]
    formatted = re.match(r"String\.format\s*\(", first)
    if formatted:
        inner = arguments(first, tokens_blanked(first), formatted.end())
        first, rest = inner[0], inner[1:]
    parts = []
    for piece in split_sum(first):
        piece = re.sub(r"^\((\".*\")\)$", r"\1", piece)
        if re.fullmatch(r'"(?:[^"\\]|\\.)*"', piece):
            parts.append(unescape(piece[1:-1]))
        elif piece in constants:
            parts.append(constants[piece])
        else:
            parts.append("{" + hole_name(piece) + "}")
    text = "".join(parts)
    holes = iter(rest)
    if formatted:
        text = re.sub(r"%(?:%|[-+0-9.]*[a-zA-Z])", lambda m: "%" if m[0] == "%%" else _next(holes), text)
    text = re.sub(r"\{\}", lambda _: _next(holes), text)
    if len(re.sub(r"\{\w+\}|\W", "", text)) < 3:
        return None
    return re.sub(r"\s+", " ", text).strip()


def _next(holes: Iterator[str]) -> str:
    expression = next(holes, None)
    return "{}" if expression is None else "{" + hole_name(expression) + "}"


def statements(source: str, name: str) -> Iterator[Statement]:
    """What a source file of this name logs and throws; the template is empty for one without a text."""
    blanked = tokens_blanked(source)
    places = owners(blanked)
    constants = {
        match[1]: "".join(unescape(part) for part in re.findall(r'"((?:[^"\\]|\\.)*)"', match[2]))
        for match in CONSTANT.finditer(source)
    }
    calls = [(m, m[2]) for m in CALL.finditer(blanked)] + [(m, "throw") for m in THROW.finditer(blanked)]
    for match, level in sorted(calls, key=lambda item: item[0].start()):
        _, owner, method = next(place for place in reversed(places) if place[0] <= match.start())
        given = arguments(source, blanked, match.end())
        if not given or not given[0]:
            if level == "throw":
                continue
            given = [""]
        found = template_of(given, constants)
        if found is None and level == "throw":
            continue
        if level == "throw":
            found = f"{match[1].rpartition('.')[2]}: {found}"
        yield Statement(level, f"{owner or name}#{method}", found or "")


def sources_of(jar: Path) -> Iterator[tuple[str, str]]:
    """The sources of a jar that concern the store, with the names of their files."""
    module = jar.name.split("-sources")[0]
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            inner = re.sub(r".*org/apache/rocketmq/\w+/", "", name)
            wanted = name.endswith(".java") and (
                "-store-" in module
                or ("-broker-" in module and inner.startswith(BROKER))
                or ("-common-" in module and inner.startswith(COMMON))
            )
            if wanted:
                yield archive.read(name).decode(), Path(name).stem


def main(directory: Path) -> None:
    versions: dict[Statement, set[tuple[int, ...]]] = {}
    silent: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {}
    newest = max((version_of(jar) for jar in directory.glob("*-sources.jar")), default=())
    seen = set()
    for jar in sorted(directory.glob("rocketmq-*-sources.jar")):
        if "controller" in jar.name:
            continue
        version = version_of(jar)
        seen.add(version)
        for source, name in sources_of(jar):
            for found in statements(source, name):
                if version == newest:
                    counts.setdefault(found.place.split("#")[0], Counter())[found.level] += 1
                if found.template:
                    versions.setdefault(found, set()).add(version)
                elif version == newest:
                    silent[found.level] += 1
    TABLE.parent.mkdir(exist_ok=True)
    order = sorted(seen)
    rows = sorted(
        (
            f"{_class(f)}\t{f.place}\t{f.level}\t{_spans(found, order)}\t{f.template}"
            for f, found in versions.items()
        )
    )
    TABLE.write_text(
        "place\tlevel\tversions\ttemplate\n" + "".join(row.partition("\t")[2] + "\n" for row in rows)
    )
    print(len(rows), "statements of", " ".join(".".join(map(str, v)) for v in order))
    for owner, levels in sorted(counts.items()):
        print(owner, *(f"{level}={levels[level]}" for level in ("error", "warn", "info", "throw")))
    total = sum(counts.values(), Counter())
    print("newest in all:", dict(total), "without a text of their own:", dict(silent))
    both = Counter(f.level for f in versions)
    print("all versions:", dict(both))


def _class(found: Statement) -> str:
    return found.place.split("#")[0]


def version_of(jar: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", jar.name.split("-sources")[0])))


def _spans(found: set[tuple[int, ...]], order: list[tuple[int, ...]]) -> str:
    """The versions as spans of the order: 4.4.0-4.9.7,5.5.0."""
    text, run = [], []
    for version in [*order, None]:
        if version in found:
            run.append(version)
        elif run:
            first, last = (".".join(map(str, v)) for v in (run[0], run[-1]))
            text.append(first if first == last else f"{first}-{last}")
            run = []
    return ",".join(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
