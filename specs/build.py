"""Generates what here follows from the code: tables, `rules.md`, `repairs.md`, `names.md` and `hexpat/`.

    python specs/build.py           write them
    python specs/build.py --check   say what is stale; exit status 1 if anything is

A page asks for the table of a layout by a line `<!-- table: NAME -->` (a name of
`rocketfsck.formats.layout.registry()`); what stands from there to `<!-- end -->` is replaced. Every layout
must be asked for by one page, and only by one. `<!-- versions -->` asks for the table of broker versions.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import get_type_hints

from rocketfsck.formats.dialect import ALL_VERSIONS, dialect_of, when
from rocketfsck.formats.layout import Layout, registry
from rocketfsck.formats.versions import BrokerTraits
from rocketfsck.repair.plan.planning import all_repairs, repairs_of, rules_of
from rocketfsck.repair.plan.table import Row
from rocketfsck.verify.finding import Rule
from rocketfsck.verify.rules.catalog import FAMILIES, RULES

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `specs` is found when this file is the program

from specs import imhex
from specs.names import NAMES_PAGE, names_page

SPECS = Path(__file__).parent
RULES_PAGE = "rules.md"
REPAIRS_PAGE = "repairs.md"
EXAMPLES_TABLE = "examples.tsv"

_TABLE = re.compile(r"(<!-- table: (?P<name>[a-z0-9_]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VERSIONS = re.compile(r"(<!-- versions -->\n).*?(<!-- end -->)", re.DOTALL)
_CITED = re.compile(r"\((\d+(?:\.\d+)+(?:, \d+(?:\.\d+)+)*)\)")
_MAP_ROW = re.compile(r"^\| (?P<numbers>[^|]+) \| (?P<links>.*\]\(.*) \|$", re.MULTILINE)
_SECTION = re.compile(r"(?<![\w.])(\d+(?:\.\d+)*)(?![\w.])")
_TARGET = re.compile(r"\]\(([^)]+)\)")

_STRICTNESS = {
    "strict": "in every store",
    "dialect": "by the broker's version",
    "heuristic": "usually; there are legal exceptions",
    "config": "by the broker's configuration",
}
_LEVEL = {
    "quick": "names, sizes, headers, tails",
    "cross": "also every frame, unit, chain and cross-reference",
    "full": "also every body and property",
}


def layout_table(layout: Layout) -> str:
    """The Markdown table of a layout; a field without a fixed offset shows `…`."""
    rows = [("Offset", "Type", "Field", "Unit", "Meaning"), ("---",) * 5]
    rows += [(offset or "…", kind, name, unit, doc) for offset, kind, name, unit, doc in layout.table()]
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    total = f"\n{layout.size} bytes.\n" if layout.is_fixed else ""
    return "\n".join(lines) + "\n" + total


ROW, WIDE = 16, 4
"""Bytes in a row of a diagram, and the characters of each."""


def layout_diagram(layout: Layout) -> str:
    """A layout as a Markdown block of boxes, 16 bytes a row, true to scale. A field that does not always
    begin at the same place has a row of its own."""
    lines = ["```text", "      " + "".join(f"{at:<{WIDE}}" for at in range(ROW)).rstrip()]
    row, start = "", 0
    for field in layout.fields:
        if field.size is None or field.offset is None:
            lines += [_diagram_row(start, row)] * bool(row)
            size = "…" if field.size is None else f"({field.size} bytes)"
            lines.append(f"    … |{field.name} {size}".ljust(6 + ROW * WIDE) + "|")
            row = ""
            continue
        left, text = field.size, field.name
        if not row:
            start = field.offset
        while left:
            room = ROW - len(row) // WIDE
            part = min(left, room)
            row += "|" + text[: part * WIDE - 1].ljust(part * WIDE - 1)
            text = text[part * WIDE - 1 :]
            left -= part
            if len(row) == ROW * WIDE:
                lines.append(_diagram_row(start, row))
                row, start = "", start + ROW
    lines += [_diagram_row(start, row)] * bool(row)
    return "\n".join([*lines, "```"]) + "\n"


def _diagram_row(start: int, row: str) -> str:
    return f"{start:>5} {row}|"


def filled(text: str, layouts: Mapping[str, Layout]) -> str:
    """A page with its tables as the layouts are now; KeyError for the name of no layout."""

    def drawn(match: re.Match[str]) -> str:
        layout = layouts[match["name"]]
        return f"{match[1]}{layout_diagram(layout)}\n{layout_table(layout)}{match[3]}"

    return _TABLE.sub(drawn, text)


def table_names(text: str) -> list[str]:
    """The layouts whose tables a page asks for."""
    return [match["name"] for match in _TABLE.finditer(text)]


def section_links(readme: str) -> dict[str, str]:
    """Section number of the reference -> page and heading, from the map in README.md."""
    links: dict[str, str] = {}
    for row in _MAP_ROW.finditer(readme):
        target = _TARGET.search(row["links"])
        if target is not None:
            links |= dict.fromkeys(_SECTION.findall(row["numbers"]), target[1])
    return links


def linked_reference(reference: str, links: Mapping[str, str]) -> str:
    """A rule's reference with each section number as a link to its page; KeyError for an unknown section."""
    return _SECTION.sub(lambda match: f"[{match[1]}]({links[match[1]]})", reference)


def versions_table(links: Mapping[str, str]) -> str:
    """The Markdown table of the traits of broker versions, those with a number in reference 0.4 first."""
    rows = []
    for trait, hint in get_type_hints(BrokerTraits, include_extras=True).items():
        found = re.fullmatch(r"(?:D(\d+): )?(.*)", hint.__metadata__[0])
        number, meaning = found.groups() if found else (None, "")
        cited = _CITED.sub(lambda match: f"({linked_reference(match[1], links)})", meaning)
        rows.append((int(number or 99), f"D{number}" if number else "", trait, cited, by_version(trait)))
    lines = ["| # | Trait | Meaning | By version |", "|---|---|---|---|"]
    lines += [
        f"| {number} | `{trait}` | {meaning} | {when} |"
        for _, number, trait, meaning, when in sorted(rows, key=itemgetter(0))
    ]
    return "\n".join(lines) + "\n"


def by_version(trait: str) -> str:
    """Which versions have which value of a trait: of a yes or no, those that have it."""
    values = list(dict.fromkeys(getattr(dialect_of(version), trait) for version in ALL_VERSIONS))
    if isinstance(values[0], bool):
        return when(trait)
    if isinstance(values[0], tuple):
        values = list(values[-1])
    texts = {value: when(trait, value) for value in values}
    return "; ".join(f"`{'none' if value is None else value}` {text}" for value, text in texts.items())


def _code(text: str) -> str:
    return f"`{text}`"


Examples = Mapping[str, tuple[str, str]]
"""Where a finding of each rule is, and what it says."""


def read_examples(path: Path = SPECS / EXAMPLES_TABLE) -> Examples:
    """The examples of rules, which the tests of rules have left (`tests/ruleexamples.py`)."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {rule: (where, text) for rule, where, text in rows}


def _rule_section(rule: Rule, links: Mapping[str, str], examples: Examples) -> Iterator[str]:
    yield f"### {rule.id} {rule.slug}\n"
    yield f"{_code(rule.meaning)}\n"
    if rule.id in examples:
        where, text = examples[rule.id]
        yield f"Example: {_code(where)}: {_code(text)}\n"
    yield f"{rule.why}\n"
    yield "| Severity | Holds | Looked for at level | Answered by | Reference |"
    yield "| --- | --- | --- | --- | --- |"
    answer = ", ".join(map(_repair_link, repairs_of(rule.id))) or "—"
    reference = linked_reference(rule.reference, links)
    severity = rule.severity.name.lower()
    yield f"| {severity} | {_STRICTNESS[rule.strictness]} | {rule.level} | {answer} | {reference} |\n"


def _repair_link(name: str) -> str:
    return f"[{name}]({REPAIRS_PAGE}#{name})"


def repairs_page(repairs: Iterable[Row]) -> str:
    """The page of all repairs, in the order in which a plan has them."""
    listed = list(repairs)
    lines = [
        "# Repairs\n",
        "<!-- Generated by specs/build.py from rocketfsck.repair.repairs. Not edited by hand. -->\n",
        f"What `rocketfsck plan` can do: {len(listed)} repairs, in the order in which a plan has them. Plans "
        "use these names, and `--only`, `--except` and `rocketfsck explain` take them.\n",
        "An action is provably safe (`--preen`) if all that it writes by is known, nothing valid is lost or "
        "changed, and the areas hold nothing unknown "
        "([the law of safety](../docs/adr/0010-law-of-safety.md)).\n",
    ]
    for repair in listed:
        by = [*repair.writes_by, *(["version"] if repair.traits else [])]
        rules = [f"[{name}]({RULES_PAGE}#{name.lower()}-{RULES[name].slug})" for name in rules_of(repair)]
        lines += [
            f"## {repair.name}\n",
            f"{repair.summary[0].upper()}{repair.summary[1:].rstrip('.')}.\n",
            f"- Answers: {', '.join(rules) or 'what `rocketfsck compare --heal` finds'}",
            f"- Writes by: {', '.join(map(_code, by)) or 'only the bytes that it changes'}",
            *([f"- Left out without: {', '.join(map(_code, repair.needs))}"] if repair.needs else []),
            f"- Areas: {', '.join(map(_code, repair.areas)) or 'that of the file that it changes'}\n",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def rules_page(rules: Iterable[Rule], links: Mapping[str, str], examples: Examples) -> str:
    """The page of all rules: a table for each family, then a section for each rule."""
    listed = sorted(rules, key=lambda rule: rule.id)
    lines = [
        "# Rules\n",
        "<!-- Generated by specs/build.py from rocketfsck.verify.rules.catalog. Not edited by hand. -->\n",
        f"What `rocketfsck check` looks for: {len(listed)} rules. A breach of a rule is a finding, and its "
        "line is the rule's template with the finding's values. A rule's number is never given to another.\n",
        "Levels: "
        + "; ".join(f"`{level}`: {what}" for level, what in _LEVEL.items())
        + ". A check at a level includes those before it.\n",
    ]
    for family, title in FAMILIES.items():
        members = [rule for rule in listed if rule.family == family]
        if not members:
            continue
        lines += [
            f"## {family}: {title}\n",
            "| Rule | Slug | Severity | Level |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| [{rule.id}](#{rule.id.lower()}-{rule.slug}) | {rule.slug} | {rule.severity.name.lower()} | "
            f"{rule.level} |"
            for rule in members
        ]
        lines.append("")
        for rule in members:
            lines += _rule_section(rule, links, examples)
    return "\n".join(lines).rstrip("\n") + "\n"


def wanted(root: Path = SPECS) -> dict[Path, str]:
    """Every page that has something generated in it, and every pattern, as they should be.

    ValueError where a layout has no table or several, KeyError where a name or section is unknown.
    """
    layouts = registry()
    made = (RULES_PAGE, REPAIRS_PAGE, NAMES_PAGE)
    pages = {path: path.read_text("utf-8") for path in sorted(root.glob("*.md")) if path.name not in made}
    asked = [name for text in pages.values() for name in table_names(text)]
    for name in layouts:
        if asked.count(name) != 1:
            raise ValueError(f"layout {name}: {asked.count(name)} tables in {root.name}, not one")
    result = {path: filled(text, layouts) for path, text in pages.items() if table_names(text)}
    links = section_links(pages[root / "README.md"])
    table = versions_table(links)
    for path, text in pages.items():
        if _VERSIONS.search(text):
            result[path] = _VERSIONS.sub(lambda match: match[1] + table + match[2], result.get(path, text))
    result[root / RULES_PAGE] = rules_page(RULES.values(), links, read_examples())
    result[root / REPAIRS_PAGE] = repairs_page(all_repairs().values())
    result[root / NAMES_PAGE] = names_page()
    return result | {
        root / imhex.FOLDER / name: text for name, text in imhex.patterns(layouts).items()
    }  # fmt: skip


def stale(root: Path = SPECS) -> list[Path]:
    """The files that are not as they should be, and patterns that nothing generates any more."""
    made = wanted(root)
    return [
        *(path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text),
        *(path for path in sorted((root / imhex.FOLDER).glob("*")) if path not in made),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with `--check` name the stale ones; the exit status."""
    parser = argparse.ArgumentParser(
        description="Generates the tables, rules, repairs and patterns of specs/."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    if parser.parse_args(arguments).check:
        pages = stale()
        for path in pages:
            print(
                f"stale: {path.relative_to(SPECS.parent)} (run python specs/build.py; it does not delete)",
                file=sys.stderr,
            )
        return 1 if pages else 0
    for path, text in wanted().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
