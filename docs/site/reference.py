"""The reference pages that are made of the code: commands, classes of faults, documents, versions, Spark.

The same source gives the same bytes. Rules and repairs have their pages in `specs/` (`make specs`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import click

from rocketfsck.cli.app import group
from rocketfsck.cli.base import EXIT_STATUS, examples_of
from rocketfsck.cli.commands import COMMANDS, GROUPS, PLUMBING
from rocketfsck.cli.manpages import ENVIRONMENT, PROGRAM, contexts, summary
from rocketfsck.cli.schema.table import DOCUMENTS, document_schema
from rocketfsck.formats.dialect import ALL_VERSION_NAMES, Dialect, dialect_for, lineage_of, parse_version
from rocketfsck.formats.versions import VERSIONS, BrokerTraits, StartTraits
from rocketfsck.repair.plan.planning import repairs_of
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES
from rocketfsck.writer.damage import DAMAGES

from docs.site.marks import anchor_of, cell, code, table
from docs.site.python import python_page

_NUMBER = re.compile(r"^D\d+: ")
_CITATION = re.compile(r" \(\d+\.\d+(?:, \d+\.\d+)*\)| †|\*\*|\[([^]]+)\]\([^)]+\)")


def reference_pages() -> dict[str, str]:
    """All pages by the name of the file."""
    pages = {
        "commands": commands_page(),
        "faults": faults_page(),
        "documents": documents_page(),
        "versions": versions_page(),
        "spark": spark_page(),
        "python": python_page(),
    }
    return {f"{name}.md": "\n".join(lines).rstrip("\n") + "\n" for name, lines in pages.items()}


def commands_page() -> list[str]:
    """Every command with what it takes, in the order of the help."""
    root = click.Context(group, info_name=PROGRAM, terminal_width=100, **group.context_settings)
    lines = ["# Commands", "", "What `rocketfsck COMMAND --help` and the manual pages say, on one page.", ""]
    for title, commands in {**GROUPS, "Plumbing": PLUMBING}.items():
        links = ((f"[{name}](#{PROGRAM}-{name})", cell(text)) for name, text in commands.items())
        lines += [f"**{title}**", "", *table(("Command", "What it does"), links)]
    for context in sorted(contexts(root), key=_place):
        lines += _command(context)
    lines += ["## Exit status", "", "The sum of what applies:", ""]
    lines += table(("Status", "Meaning"), ((str(status), cell(text)) for status, text in EXIT_STATUS))
    lines += ["## Environment", ""]
    return lines + list(
        table(("Variable", "Meaning"), ((code(name), cell(text)) for name, text in ENVIRONMENT.items()))
    )


def _place(context: click.Context) -> tuple[int, str]:
    names = context.command_path.split()
    return (list(COMMANDS).index(names[1]) + 1 if len(names) > 1 else 0), context.command_path


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f"## {context.command_path}"
    yield ""
    yield cell(summary(context))
    yield ""
    yield from ("```text", f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}", "```")
    yield ""
    for part in re.split(r"\n\s*\n", (command.help or "").replace("\f", "").strip()):
        is_kept = part.lstrip().startswith("\b")
        yield from ("```text", part.replace("\b", "").strip("\n"), "```") if is_kept else (cell(part),)
        yield ""
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    yield from table(
        ("Option", "What it says"), ((code(one), cell(text)) for one, text in filter(None, records))
    )
    examples = list(examples_of(context.command_path))
    if examples:
        yield from table(
            ("Example", ""), ((code(f"{PROGRAM} {line}"), cell(what)) for what, line in examples)
        )


def faults_page() -> list[str]:
    """Classes of faults: what each is, its rules, what repairs them, and the damage that makes one."""
    lines = [
        "# Classes of faults",
        "",
        "What happens to stores, by class: the rules that find it, the repairs that answer it, and "
        "the named damages of `rocketfsck damage` that make one to look at.",
        "",
    ]
    for known in FAULT_CLASSES.values():
        rules = [rule for rule in RULES.values() if rule.fault_class == known.id]
        repairs = sorted({name for rule in rules for name in repairs_of(rule.id)})
        damages = [damage for damage in DAMAGES.values() if damage.fault_class == known.id]
        lines += [f"## {known.id}: {known.title}", "", known.meaning, "", known.advice, ""]
        if damages:
            examples = ((code(f"--fault {one.name}"), cell(one.summary), cell(one.needs)) for one in damages)
            lines += table(("Example", "What it does", "It needs"), examples)
        links = ", ".join(f"[{one.id}](../specs/rules.md#{one.id.lower()}-{one.slug})" for one in rules)
        answers = ", ".join(f"[{name}](../specs/repairs.md#{name})" for name in repairs)
        if known.found_by:
            lines += [f"- Found by: {code(known.found_by)}", "- Repairs: what `--heal` plans", ""]
            continue
        lines += [f"- Rules: {links or 'none'}", f"- Repairs: {answers or 'a person must decide'}", ""]
    return lines


def documents_page() -> list[str]:
    """The documents in JSON, with the schema of each."""
    listed = ((f"[{code(name)}](#{anchor_of(name)})", cell(one.about)) for name, one in DOCUMENTS.items())
    lines = [
        "# JSON documents",
        "",
        "What commands print, write or keep as JSON. `rocketfsck schema NAME` prints these schemas "
        "(JSON Schema, draft 2020-12).",
        "",
        *table(("Document", "What it is"), listed),
    ]
    for name, document in DOCUMENTS.items():
        schema = document_schema(name)
        lines += [f"## {name}", "", f"{cell(document.about)}.", ""]
        members = schema.get("properties", {})
        if members:
            lines += table(
                ("Member", "Type", "Always there"),
                (
                    (code(member), cell(_type(row)), "yes" if member in schema.get("required", ()) else "no")
                    for member, row in members.items()
                ),
            )
        text = json.dumps(schema, indent=1, ensure_ascii=False)
        lines += ["<details><summary>Schema</summary>", "", f"<pre>{_html(text)}</pre>", "", "</details>", ""]
    return lines


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\n\n", "\n")


def _type(schema: Any) -> str:
    """The type of a member in a few words."""
    if not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for many in ("anyOf", "oneOf"):
        if many in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[many])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items'))}"
    found = schema.get("type", "anything")
    return " or ".join(found) if isinstance(found, list) else str(found)


def versions_page() -> list[str]:
    """Every version, with what it does when it starts, and how it differs from the one before."""
    meanings = {
        trait: _CITATION.sub(lambda found: found[1] or "", _NUMBER.sub("", hint.__metadata__[0]))
        for trait, hint in get_type_hints(BrokerTraits, include_extras=True).items()
    }
    starts = get_type_hints(StartTraits)
    lines = [
        "# Broker versions, and what each does on a start",
        "",
        "`rocketfsck simulate` and the verdict of `check` predict starts by this table. "
        "[Dialects](../specs/dialects.md) has the same by trait, with the traits that no start depends on.",
        "",
        "## What a version changed",
        "",
    ]
    changes = (
        (f"[{name}](#{anchor_of(name)})", _before(name), "; ".join(_changes(name, meanings)) or "–")
        for name in ALL_VERSION_NAMES
    )
    lines += table(("Version", "After", "What it does otherwise"), changes)
    for name in ALL_VERSION_NAMES:
        dialect = dialect_for(name)
        rows = ((cell(meanings[trait]), _value(dialect, trait)) for trait in starts)
        lines += [f"## {name}", "", *table((f"A start of {name}", ""), rows)]
    return lines


def _before(name: str) -> str:
    """The version that this one was developed from."""
    lineage = lineage_of(parse_version(name))
    return str(lineage[-2]) if len(lineage) > 1 else "–"


def _changes(name: str, meanings: dict[str, str]) -> Iterator[str]:
    for trait, value in VERSIONS[name].items():
        yield f"{cell(meanings[trait])}: {_said(value)}"


def _value(dialect: Dialect, trait: str) -> str:
    return _said(getattr(dialect, trait))


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(code(str(one)) for one in value) or "none"
    return "none" if value is None else code(str(value))


def spark_page() -> list[str]:
    """The views of the data source with their columns, and the options."""
    from rocketfsck.pipeline.columns import EVERY, OPTION_NAMES, choose_columns, declared
    from rocketfsck.pipeline.tail.place import STREAM_OPTIONS
    from rocketfsck.pipeline.views.model import WantedRows
    from rocketfsck.pipeline.views.table import VIEWS

    lines = [
        "# The Spark data source",
        "",
        '`spark.read.format("rocketmq").option("view", VIEW).load(STORE)`. '
        "[On Spark](../docs/guide/spark.md) says how to use it, and what each option means.",
        "",
        f"Options: {', '.join(map(code, OPTION_NAMES))}.",
        "",
        f"Options of a stream besides: {', '.join(map(code, STREAM_OPTIONS))}.",
        "",
    ]
    for name, view in VIEWS.items():
        wanted = WantedRows()
        given = {
            field.name for field in declared(name, choose_columns(name, wanted, body=False, properties=False))
        }
        every = choose_columns(name, WantedRows(columns=(EVERY,)), body=False, properties=False)
        rows = (
            (
                code(field.name),
                code(str(field.type)),
                "yes" if field.name in given else "where it is asked for",
            )
            for field in declared(name, every)
        )
        chosen = ", ".join(map(code, sorted(view.conditions)))
        lines += [f"## The view {name}", "", *table(("Column", "Type", "Given"), rows)]
        lines += [f"Rows can be selected by {chosen}.", ""] if chosen else []
    return lines
