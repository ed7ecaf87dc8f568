"""`python -m benchmarks.sizes`: the lines of code of each feature, in the source and in its tests.

    --no-write      leave benchmarks/results/sizes.md as it is

A line counts if there is code on it: no comment, no docstring, not blank. A module belongs to the first
feature whose pattern its path has; what no pattern has is named by its room. Generated readers are left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("results") / "sizes.md"
SOURCE, TESTS = Path("src"), Path("tests")

FEATURES = {
    "simulated starts": r"query/start|simulate|verdict|prospect|/start_|test_start",
    "served answers": r"query/serving|pulls|recorded_answers|oracle_answers",
    "timeline": r"timeline",
    "Spark": r"spark|datasource|registered|streaming|pipeline/columns",
    "fleets": r"fleet|several|pipeline/tail|stream_reader|tail_growth|rebuildstores",
    "export and tables": r"export|table|openmetrics|statistics|reportstats|infostats|info_stats",
    "views for SQL and Arrow": r"pipeline/views|views_|scan/views",
    "report page": r"page|pictures",
    "browse": r"browse",
    "query": r"query/|cli/query|commands/query|unit/query|cases/test_query",
    "dump": r"cli/dump|/dump|hexview",
    "compare": r"compare",
    "salvage and carving": r"salvage|carv",
    "heal": r"heal|onebit|flip_?bit",
    "masks and bug reports": r"mask|bugreport|privacy",
    "config of brokers": r"(formats|store|build)/config|config_rules|repairs/(committed|config|groupoffsets)",
    "check --since": r"since|resume",
    "named damages": r"damage|faults\.py|indexscene|logscene|queuescene",
    "synthesis and masks of writers": r"synth|writer/mask",
    "remote stores": r"remote|places/(blocks|filesystems|locations|urls)|s3|objects",
    "RocksDB": r"rocks|databases|rowqueue|rowmessage|prepared_rows|rowindex",
    "extract": r"extract|convert/(chosen|cutconfigs)",
    "DLedger and controller": r"dledger|epoch|convert|nodes?\.py|replication|replicas",
    "timers": r"timer",
    "compaction": r"compact",
    "tiered storage": r"tiered",
    "repair": r"repair",
    "writing": r"writer|commands/learn",
    "checks": r"verify|cli/(commands/check|show/report|forms)",
    "mutants and fuzz": r"hostile",
    "the broker's own code": r"oracle",
    "other readers": r"kaitai|vectors|specs|property",
}  # fmt: skip
GENERATED = re.compile(r"tests/kaitai/generated|test_kaitai_generated")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lines of code of one module: all, those of imports, of signatures, and of one argument each."""

    lines: int
    imports: int
    signatures: int
    arguments: int


def sizes_of(text: str) -> Sizes:
    """The lines of a module's text. Raises SyntaxError for what is no Python."""
    tree = ast.parse(text)
    code = _lines_of_code(text) - set(_docstrings(tree))
    imports, signatures, arguments = set[int](), set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _lines(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            signatures |= set(range(node.lineno, node.body[0].lineno)) or {node.lineno}
        elif isinstance(node, ast.Call) and node.lineno != node.end_lineno:
            arguments |= {line for part in (*node.args, *node.keywords) for line in _alone(part, node)}
    return Sizes(len(code), len(imports & code), len(signatures & code), len(arguments & code - imports))


def _lines_of_code(text: str) -> set[int]:
    skipped = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    found = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            found.update(range(token.start[0], token.end[0] + 1))
    return found


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """Also of texts below a constant or a field, which are no docstrings for Python."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from _lines(node)


def _lines(node: ast.AST) -> set[int]:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 0)
    return set(range(first, last + 1))


def _alone(part: ast.AST, call: ast.Call) -> Iterator[int]:
    """The line of an argument that has a line of its own and no call in it."""
    first, last = getattr(part, "lineno", 0), getattr(part, "end_lineno", 0)
    if first == last != call.lineno and not any(isinstance(node, ast.Call) for node in ast.walk(part)):
        yield first


def feature_of(path: str) -> str:
    """The feature that a module of this path belongs to; what belongs to none has its room's name."""
    for name, pattern in FEATURES.items():
        if re.search(pattern, path):
            return name
    room = path.removeprefix("src/rocketfsck/").removeprefix("tests/unit/").removeprefix("tests/")
    return f"other: {room.partition('/')[0].removesuffix('.py')}"


def measured(root: Path = ROOT) -> dict[str, Sizes]:
    """The sizes of all modules of source and tests that have code, by their path."""
    paths = (path for part in (SOURCE, TESTS) for path in sorted((root / part).rglob("*.py")))
    names = ((path.relative_to(root).as_posix(), path) for path in paths)
    found = {name: sizes_of(path.read_text()) for name, path in names if not GENERATED.search(name)}
    return {name: sizes for name, sizes in found.items() if sizes.lines}


def page_of(modules: dict[str, Sizes]) -> str:
    """The page: what the source is made of, then a row a feature, the largest first."""
    source = {name: sizes for name, sizes in modules.items() if name.startswith("src/")}
    total = sum(sizes.lines for sizes in source.values())
    of_lines, of_tests, counts = Counter[str](), Counter[str](), Counter[str]()
    for name, sizes in modules.items():
        (of_lines if name in source else of_tests)[feature_of(name)] += sizes.lines
        counts[feature_of(name)] += name in source
    parts = {
        "imports": sum(sizes.imports for sizes in source.values()),
        "signatures": sum(sizes.signatures for sizes in source.values()),
        "lines of one argument": sum(sizes.arguments for sizes in source.values()),
    }
    lines = [
        "# Lines of code by feature", "",
        "Made by `make sizes`: lines with code on them, no comments, no docstrings, by feature.",
        "", f"Source: {total:,} lines in {len(source)} modules; tests: {sum(of_tests.values()):,} lines.", "",
        *(f"- {name}: {count:,} lines, {count / total:.1%}" for name, count in parts.items()), "",
        "| feature | modules | source | tests |", "|---|---:|---:|---:|",
    ]  # fmt: skip
    names = sorted({*of_lines, *of_tests}, key=lambda name: (-of_lines[name], -of_tests[name], name))
    lines += [f"| {name} | {counts[name]} | {of_lines[name]:,} | {of_tests[name]:,} |" for name in names]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the page, and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--no-write", action="store_true")
    page = page_of(measured())
    sys.stdout.write(page)
    if not parser.parse_args(arguments).no_write:
        PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
