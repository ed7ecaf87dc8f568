"""Plans, and what apply and undo did, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rocketfsck.cli.show.details import detail_lines
from rocketfsck.cli.show.ledger import NAME_SHOWN, SHOWN, ledger_lines, message_lines
from rocketfsck.cli.show.report import paint
from rocketfsck.cli.show.start import comparison_lines
from rocketfsck.cli.show.table import aligned_rows, wrapped
from rocketfsck.cli.show.text import Palette, byte_size, count_of, shorten, visible
from rocketfsck.repair.apply.results import ApplyReport, UndoReport, undo_command
from rocketfsck.repair.area.manifests import some_of
from rocketfsck.repair.plan.law import KINDS, all_assumptions, notice_text, total_notices
from rocketfsck.repair.plan.model import (
    Action,
    Assumption,
    Gain,
    Loss,
    Notice,
    Plan,
    RefusedAction,
    Unanswered,
)
from rocketfsck.repair.prospect import total_gains
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PLURALS = {"entry": "entries"}
_HOW = {"assumed": "assumed", "given": "given", "bytes": "known from the bytes"}


def plan_lines(plan: Plan, palette: Palette, columns: int, *, head: bool = True) -> Iterator[str]:
    """What would be done, why, what goes and comes back, what is left; with a `head`, for which store."""
    if head:
        yield palette.bold(f"Store {visible(plan.store.root)}")
        found = severity_words(plan.counts, palette) or "nothing"
        yield f"  read as RocketMQ {visible(plan.store.version)}; found at level {plan.level}: {found}"
    if plan.actions:
        yield ""
        yield palette.bold("Planned actions, in order")
    for number, action in enumerate(plan.actions, 1):
        yield from _action(number, action, palette, columns)
    losses = [*chain.from_iterable(action.losses for action in plan.actions)]
    if losses:
        yield ""
        yield palette.bold("What is lost")
        yield from _some((palette.warning(f"  {line}") for line in map(loss_text, losses)), len(losses))
    gains = total_gains(plan.actions)
    if gains:
        yield ""
        yield palette.bold("What is regained")
        for what, count in gains.items():
            yield f"  {count_of(count, visible(what), _PLURALS.get(what))}"
        regained = [*chain.from_iterable(action.regained for action in plan.actions)]
        yield from _some((f"    {loss_text(gain)}" for gain in regained), len(regained))
    yield from _assumptions(all_assumptions(plan.actions), palette, columns)
    yield from _notices(total_notices(plan.actions), palette, columns)
    yield from _conflicts(plan, palette)
    yield from _refused(plan.refused_actions, palette, columns)
    yield from _unanswered("What is left", plan.unanswered, columns, palette)
    yield ""
    noted = sum(action.finding_count for action in plan.actions)
    answered = plan.answered_count or noted  # what only informs is repaired by name
    size = sum(action.write_byte_count for action in plan.actions)
    if plan.actions:
        most = f"at most {byte_size(size)} to be written"
        words = f"{count_of(len(plan.actions), 'action')} for {count_of(answered, 'finding')}, {most}"
    else:
        words = "no repair is needed" if not plan.unanswered else "no repair is possible"
    left = f"; {count_of(plan.unanswered_count, 'finding')} left" if plan.unanswered else ""
    yield f"{palette.bold('Result:')} {words}{left}."


def _refused(refused: Sequence[RefusedAction], palette: Palette, columns: int) -> Iterator[str]:
    """Actions that a trial of the plan left out."""
    if not refused:
        return
    yield ""
    yield palette.bold("What is refused")
    lines = (
        line
        for item in refused[:SHOWN]
        for line in (
            f"  {visible(f'{item.name} {item.target}')}",
            *wrapped(visible(item.reason), columns, "    "),
        )
    )
    yield from lines
    if len(refused) > SHOWN:
        yield f"  … {len(refused) - SHOWN:,} more; --format json has them all"


def severity_words(counts: Mapping[str, int], palette: Palette) -> str:
    """Counts by rule as "2 errors, 1 warning"."""
    totals = dict.fromkeys(_NOUNS, 0)
    for rule, count in counts.items():
        totals[RULES[rule].severity] += count
    return ", ".join(
        paint(palette, severity, count_of(totals[severity], noun))
        for severity, noun in _NOUNS.items()
        if totals[severity]
    )


def _assumptions(items: Sequence[Assumption], palette: Palette, columns: int) -> Iterator[str]:
    """What the actions write by, and how each value is known: what is assumed one by one."""
    if not items:
        return
    yield ""
    yield palette.bold("What this relies on")
    for how, title in _HOW.items():
        found = [
            (f"{visible(item.name)} {shorten(visible(str(item.value)), NAME_SHOWN)}", visible(item.evidence))
            for item in items
            if item.how == how
        ]
        if how == "assumed":
            for value, evidence in found:
                lines = wrapped(f"{title}: {value} ({evidence})", columns, "  ")
                yield from (palette.warning(line) for line in lines)
        elif found:
            yield from wrapped(f"{title}: {', '.join(value for value, _ in found)}", columns, "  ")


def _notices(items: Sequence[Notice], palette: Palette, columns: int) -> Iterator[str]:
    """What the broker and its consumers will notice."""
    if not items:
        return
    yield ""
    yield palette.bold("What the broker and its consumers notice")
    for item in items:
        lines = wrapped(visible(notice_text(item)), columns, "  ")
        harmless = item.kind in KINDS and KINDS[item.kind].harmless
        yield from lines if harmless else (palette.warning(line) for line in lines)


def _conflicts(plan: Plan, palette: Palette) -> Iterator[str]:
    """What another copy has and this store does not get."""
    if not plan.conflict_count:
        return
    yield ""
    yield palette.bold(f"What is not taken from the other copy: {count_of(plan.conflict_count, 'record')}")
    lines = (
        f"  {count_of(item.record_count, 'record')}, physical offset {item.start_offset} to "
        f"{item.end_offset}: {visible(item.reason, keep_backslash=True)}"
        for item in plan.conflicts
    )
    yield from _some((palette.warning(line) for line in lines), len(plan.conflicts))


def loss_text(loss: Loss | Gain) -> str:
    """A loss or a gain in a printable line, with its exact offsets."""
    parts = [count_of(loss.count, visible(loss.what), _PLURALS.get(loss.what))]
    if loss.topic is not None:
        queue = "" if loss.queue_id is None else f" queue {loss.queue_id}"
        parts.append(f"topic {shorten(visible(loss.topic), NAME_SHOWN)}{queue}")
    if loss.first_queue_offset is not None:
        last = loss.last_queue_offset
        one = last is None or last == loss.first_queue_offset
        first = loss.first_queue_offset
        parts.append(f"queue offset {first}" if one else f"queue offsets {first} to {last}")
    if loss.start_offset is not None:
        end = "" if loss.end_offset is None else f" to {loss.end_offset}"
        parts.append(f"physical offset {loss.start_offset}{end}")
    kept = f" (kept in {visible(loss.kept_in)})" if isinstance(loss, Loss) and loss.kept_in else ""
    return ", ".join(parts) + kept


def _action(number: int, action: Action, palette: Palette, columns: int) -> Iterator[str]:
    target = visible(action.target) or "the store"
    yield f"  {number}. {palette.good(visible(action.name))} {palette.bold(target)}"
    yield from wrapped(visible(action.note, keep_backslash=True), columns, "     ")
    yield from detail_lines(action, SHOWN)
    facts = []
    if action.why:
        facts.append(
            f"for {', '.join(map(visible, action.rules))} ({count_of(action.finding_count, 'finding')})"
        )
    if action.write_byte_count:
        facts.append(f"writes at most {byte_size(action.write_byte_count)}")
    facts.append("safe" if action.preen else "needs your judgement")
    yield from (palette.dim(line) for line in wrapped("; ".join(facts), columns, "     "))


def _some(lines: Iterable[str], count: int) -> Iterator[str]:
    for line, _ in zip(lines, range(SHOWN), strict=False):
        yield line
    if count > SHOWN:
        yield f"  … {count - SHOWN:,} more; --format json has them all"


def _unanswered(title: str, items: Sequence[Unanswered], columns: int, palette: Palette) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield palette.bold(title)
    alike: dict[str, list[Unanswered]] = {}
    for item in items[:SHOWN]:
        alike.setdefault(item.reason, []).append(item)
    for reason, same in alike.items():
        for item in same:
            name = paint(palette, RULES[item.rule].severity, item.rule)
            yield f"  {name} {visible(item.message, keep_backslash=True)}"
        yield from wrapped(visible(reason, keep_backslash=True), columns, "    ")
    if len(items) > SHOWN:
        yield f"  … {len(items) - SHOWN:,} more; --format json has them all"


def apply_lines(
    report: ApplyReport, palette: Palette, columns: int, *, planned: bool = False
) -> Iterator[str]:
    """What was done, the findings before and after, the ledger, and what to run next. Behind the lines of the
    plan (`planned`) what these say already is left out."""
    yield "" if planned else palette.bold(f"Store {visible(report.store)}")
    if report.finished:
        yield "  an earlier run applied the plan; this run finished the rest"
    if report.actions:
        if not planned:
            yield ""
        yield palette.bold("Done" if report.published else "Tried next to the store")
        yield from _some((f"  {visible(action)}" for action in report.actions), len(report.actions))
        yield ""
        yield palette.bold("Findings")
        yield from (f"  {line}" for line in _before_and_after(report, palette))
    yield from message_lines(report.messages_before, report.messages_after, palette)
    yield from ledger_lines(report.ledger, palette)
    if not planned:
        yield from _assumptions(report.assumptions, palette, columns)
        yield from _notices(report.ledger.notices, palette, columns)
    yield from _refused(report.refused_actions, palette, columns)
    yield from comparison_lines(report.starts, palette, columns)
    yield from _unanswered("Still found, although it was to be corrected", report.unmet, columns, palette)
    yield from _unanswered("New", report.fresh, columns, palette)
    yield from _unanswered("What is left", report.left, columns, palette)
    yield ""
    yield from _result(report, palette, columns)


def _before_and_after(report: ApplyReport, palette: Palette) -> Iterator[str]:
    rules = sorted({*report.before, *report.after}, key=lambda rule: (-RULES[rule].severity, rule))
    rows = [("", "before", "after")]
    rows += [
        (f"{rule} {RULES[rule].slug}", f"{report.before.get(rule, 0):,}", f"{report.after.get(rule, 0):,}")
        for rule in rules
        if RULES[rule].severity > Severity.INFO
    ]
    for number, line in aligned_rows(rows, right=(1, 2)):
        yield palette.dim(line) if number == 0 else line


def _result(report: ApplyReport, palette: Palette, columns: int) -> Iterator[str]:
    title, store = palette.bold("Result:"), shlex.quote(report.store)
    if report.problem:
        yield f"{title} {palette.error('nothing was changed')}: {visible(report.problem)}."
        yield _next(f"rocketfsck check {store}", palette)
        return
    if not report.published:
        yield f"{title} the plan has no actions; nothing was changed."
        return
    left = f"; {count_of(report.left_count, 'finding')} left" if report.left else ""
    done = count_of(len(report.actions), "action")
    yield f"{title} {palette.good('corrected')} by {done}{left}."
    if report.not_kept:
        yield "Owners, permissions and attributes that could not be kept:"
        yield from (f"  {visible(line)}" for line in report.not_kept)
    if report.kept:
        yield from wrapped(f"The former store is kept in {visible(report.kept)}.", columns)
        yield _next(_undo_command(report), palette, "To undo")
    if report.state == "unclean":
        yield "Next: start the broker; what is left ends with its start"
        return
    yield _next(f"rocketfsck check {store}", palette)


def _undo_command(report: ApplyReport) -> str:
    """What takes the repair back, with the directory where it is kept if that is not next to the store."""
    above = report.kept.rpartition("/")[0]
    near = above == report.store.rpartition("/")[0]
    return undo_command(report.store, None if near else above, report.outside)


def _next(command: str, palette: Palette, why: str = "Next") -> str:
    return f"{why}: {palette.good(visible(command, keep_backslash=True))}"


def undo_lines(report: UndoReport, palette: Palette) -> Iterator[str]:
    """What was taken back."""
    yield palette.bold(f"Store {visible(report.store)}")
    done = palette.good(f"{'an interrupted' if report.finished else 'the last'} repair is undone")
    result = f"{palette.bold('Result:')} {done}"
    if not report.not_restored:
        yield f"{result}; bytes, names and times are restored."
    else:
        yield f"{result}, but not all is as before the repair: {some_of(map(visible, report.not_restored))}."
        if report.messages.words:
            yield f"Messages: {visible(report.messages.words, keep_backslash=True)}."
    if report.kept:
        yield f"What had been written since is kept in {visible(report.kept)}."
    if report.kept_is_shared:
        yield "Some of its files are the store's own: copy it elsewhere before a broker starts."
    yield _next(f"rocketfsck check {shlex.quote(report.store)}", palette)
