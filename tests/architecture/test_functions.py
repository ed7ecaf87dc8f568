"""Functions that are longer than a screen, or have more parameters than one keeps in mind, say why."""

from __future__ import annotations

import ast

from tests.architecture.source import MODULES, nodes_of

MOST_LINES, MOST_PARAMETERS = 60, 8
SLACK = 10
"""How many lines a function may have less than its entry allows."""

OPTIONS = "click gives a command its options as parameters"
CONDITIONS = "each parameter is a condition that a caller may set, by name"
HANDED = "hands on what the command's options say, one by one"
STEPS = "steps of one command in their order, each a call"
ORDER = "steps of one piece of work in their order, each a call"
KERNEL = "compiled code: a call for each part would be inlined, and its variables be parameters"
FIELDS = "a parameter, or a line, for each field of what is made"

LARGE: dict[tuple[str, str], tuple[int, int, str]] = {
    ("api.py", "iter_messages"): (60, 11, CONDITIONS),
    ("formats/record.py", "make_record"): (42, 12, FIELDS),
    ("opened.py", "to_arrow"): (60, 11, CONDITIONS),
    ("page/collect.py", "collect"): (72, 8, FIELDS),
    ("query/keys.py", "find_by_key"): (60, 11, CONDITIONS),
    ("query/start/result.py", "start_of"): (61, 8, FIELDS),
    ("query/places.py", "with_tiered_key"): (60, 9, CONDITIONS),
    ("repair/apply/applying.py", "apply_plan"): (60, 10, CONDITIONS),
    ("repair/plan/planning.py", "make_plan"): (102, 12, f"{CONDITIONS}; {ORDER}"),
    ("repair/repairs/answers.py", "answer"): (60, 10, FIELDS),
    ("repair/repairs/queues.py", "rebuild_queues"): (76, 8, ORDER),
    ("repair/salvage/salvage.py", "finish_story"): (60, 9, FIELDS),
    ("scan/units.py", "_place"): (108, 9, KERNEL),
    ("scan/compiled/gather.py", "_split"): (67, 8, KERNEL),
    ("scan/compiled/index.py", "replay"): (66, 10, KERNEL),
    ("scan/compiled/records.py", "_scan"): (282, 8, KERNEL),
    ("scan/compiled/records.py", "scan_records"): (40, 9, "takes the columns apart for the kernel, and back"),
    ("scan/join/keyjoin.py", "join_entry_rows"): (194, 13, KERNEL),
    ("scan/log/tiling.py", "fill_batch"): (60, 9, "has the parameters of the scans that it calls"),
    ("scan/log/tiling.py", "scan_log_file"): (65, 8, CONDITIONS),
    ("scan/plain/records.py", "_read_row"): (98, 9, "a record's fields in their order, each with its test"),
    ("scan/plain/records.py", "scan_records"): (61, 9, "the same parameters as its compiled twin"),
    ("scan/synth/compiled.py", "make_records"): (155, 8, KERNEL),
    ("store/opening.py", "_open_store"): (64, 8, FIELDS),
    ("verify/run.py", "check_store"): (114, 8, ORDER),
    ("verify/tasks/execute.py", "execute"): (77, 8, ORDER),
    ("writer/synth/bulk.py", "kernel_input"): (61, 8, FIELDS),
    ("writer/synth/__init__.py", "synthesize"): (60, 9, CONDITIONS),
}
"""Larger functions: how many lines and parameters each may have, and why. The list can only shrink."""


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a caller sees."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _sizes() -> dict[tuple[str, str], tuple[int, int]]:
    """Lines and parameters of every function; of several with a name, the most."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for module in MODULES:
        for node in nodes_of(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines, most = found.get((module, node.name), (0, 0))
                found[module, node.name] = (
                    max(lines, node.end_lineno - node.lineno + 1),
                    max(most, _parameters(node)),
                )
    assert len(found) > 1000, "or nothing was looked at"
    return found


def test_a_function_is_seen_at_once() -> None:
    """Split one that is too large, or say in LARGE why it is one."""
    too_large = {
        name: (lines, parameters)
        for name, (lines, parameters) in _sizes().items()
        if lines > LARGE.get(name, (MOST_LINES, 0))[0]
        or parameters > LARGE.get(name, (0, MOST_PARAMETERS))[1]
    }
    assert too_large == {}


def test_entries_of_large_functions_are_needed() -> None:
    """An entry goes when its function has the usual size again; its figures follow one that shrinks."""
    sizes = _sizes()
    stale = {}
    for name, (most_lines, most_parameters, reason) in LARGE.items():
        lines, parameters = sizes.get(name, (0, 0))
        is_needed = lines > MOST_LINES or parameters > MOST_PARAMETERS
        is_loose = most_lines > max(lines + SLACK, MOST_LINES) or most_parameters > max(
            parameters, MOST_PARAMETERS
        )
        if not is_needed or is_loose or len(reason) <= 20:
            stale[name] = (lines, parameters)
    assert stale == {}
