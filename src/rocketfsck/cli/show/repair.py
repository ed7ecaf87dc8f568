"""Plans, and what apply and undo did, as text.

What a repair did to messages, units and records, as tables.

What an action of a plan does in detail: offsets, topics, and commands that do the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rocketfsck.cli.show.report import NOUNS, paint
from rocketfsck.cli.show.start import comparison_lines
from rocketfsck.cli.show.text import Palette, aligned_rows, section, sentence, shorten, some, wrapped
from rocketfsck.common.wording import byte_size, count_of, visible
from rocketfsck.repair.apply.ledger import Ledger, LedgerAccount
from rocketfsck.repair.apply.results import ApplyReport, UndoReport, undo_command
from rocketfsck.repair.area.manifests import some_of
from rocketfsck.repair.plan import model
from rocketfsck.repair.plan.arguments import ConfigOrigin, OffsetChange, OffsetChanges
from rocketfsck.repair.plan.law import HARMLESS, all_assumptions, notice_text, total_notices
from rocketfsck.repair.verdict import total_gains
from rocketfsck.verify.finding import Fates, Severity
from rocketfsck.verify.rules.catalog import RULES

SHOWN, NAME_SHOWN = 12, 60
"""Rows of a list, and characters of a name, that are shown."""
_MORE = "… {:,} more; --format json has them all"


def message_lines(before: Fates | None, after: Fates | None, palette: Palette) -> Iterator[str]:
    """What became of the messages, before and after; nothing where nothing changed."""
    if before is None or after is None or before == after:
        return
    counts = ((text, getattr(before, name), getattr(after, name)) for name, text in _FATES.items())
    rows = [("", "before", "after")]
    rows += [(text, f"{then:,}", f"{now:,}") for text, then, now in counts if then or now]
    yield from section(palette.bold("Messages"), _under_head(rows, palette, "  ", labels=True))


def _under_head(
    rows: Sequence[Sequence[str]], palette: Palette, indent: str = "", *, labels: bool = False
) -> Iterator[str]:
    """A table with two columns of numbers below its head."""
    for number, line in aligned_rows(rows, right=(1, 2), labels=labels):
        yield palette.dim(f"{indent}{line}") if number == 0 else f"{indent}{line}"


_FATES = {
    "served_count": "consumers get",
    "damaged_count": "consumers get damaged",
    "unreached_count": "cannot be consumed",
    "lost_count": "lost",
    "perhaps_lost_count": "perhaps lost",
    "replaced_count": "replaced by filler messages",
    "removed_count": "removed with their topics",
}
"""What is said of messages by their fate, in a table."""


_NUMBERS = ("before", "kept", "corrected", "moved", "lost", "gained", "after")
"""Members of an account, which are its columns, too."""


def ledger_lines(ledger: Ledger, palette: Palette) -> Iterator[str]:
    """What became of the units of each queue and of the records of changed files; nothing where none did."""
    if not ledger.accounts:
        return
    yield from ("", palette.bold("Ledger (units of queues, records of the log)"))
    head = ("", *_NUMBERS)
    shown = ledger.accounts[:SHOWN]
    rows = [head, *map(_account_row, shown)]
    for number, line in aligned_rows(rows, right=range(1, len(head))):
        account = shown[number - 1] if number else None
        odd = account is not None and not account.balanced
        yield palette.error(f"  {line}") if odd else palette.dim(f"  {line}") if number == 0 else f"  {line}"
        if account is not None and account.lost_ranges:
            yield f"    lost: {_ranges_text(account)}"
    if len(ledger.accounts) > SHOWN:
        yield f"  {_MORE.format(len(ledger.accounts) - SHOWN)}"
    if ledger.filler_count > 0:
        yield f"  added: {count_of(ledger.filler_count, 'filler record')}, not counted as messages"
    others = count_of(ledger.unchanged_queue_count, "queue")
    files = count_of(ledger.unchanged_log_file_count, "commit log file")
    yield f"  untouched: {others}, {files}"


def _account_row(account: LedgerAccount) -> tuple[str, ...]:
    name = "records of changed commit log files"
    if account.kind != "log":
        name = f"{shorten(visible(account.topic), NAME_SHOWN)} queue {account.queue_id}"
    return name, *(f"{getattr(account, number):,}" for number in _NUMBERS)


def _ranges_text(account: LedgerAccount) -> str:
    what = "physical offset" if account.kind == "log" else "queue offset"
    shown = [
        str(item.start) if item.count == 1 else f"{item.start} to {item.end - 1}"
        for item in account.lost_ranges[:SHOWN]
    ]
    more = " …" if len(account.lost_ranges) > SHOWN else ""
    return f"{what} {', '.join(shown)}{more}"


def detail_lines(action: model.Action, limit: int) -> Iterator[str]:
    """What is set group by group, and the commands that do the same on a running broker."""
    lines: list[str] = []
    if isinstance(action.arguments, OffsetChanges):
        lines = [
            f"{shorten(visible(item.group), NAME_SHOWN)}: {shorten(visible(item.topic), NAME_SHOWN)}/"
            f"{item.queue_id} {_from(item)} to {item.offset:,}{_effect(item)}"
            for item in action.arguments.changes
        ]
    elif isinstance(action.arguments, ConfigOrigin) and (action.arguments.topics or action.arguments.groups):
        yield "     the same on a running broker:"
        lines = [
            f"mqadmin updateSubGroup -b BROKER -g {shlex.quote(visible(group))}"
            for group in action.arguments.groups
        ]
        lines += [
            f"mqadmin updateTopic -b BROKER -t {shlex.quote(visible(item.topic))} -r {item.queue_count} "
            f"-w {item.queue_count} -p 6{_KINDS[item.queue_type]}"
            for item in action.arguments.topics
        ]
    yield from (f"       {line}" for line in some(lines, len(lines), limit, _MORE))
    if lines and isinstance(action.arguments, OffsetChanges):
        yield "     the same on a running broker from 5.0 on: mqadmin resetOffsetByTime -b BROKER"
        yield "       -g GROUP -t TOPIC -q QUEUE -o OFFSET -s now"


_KINDS = {"SimpleCQ": "", "BatchCQ": " -a +queue.type=BatchCQ"}


def _from(change: OffsetChange) -> str:
    return "from none" if change.former_offset is None else f"from {change.former_offset:,}"


def _effect(change: OffsetChange) -> str:
    """What a group notices of another offset."""
    if change.former_offset is None:
        return ""
    count = change.offset - change.former_offset
    words = f"skips {count:,}" if count > 0 else f"goes back by {-count:,}"
    return f" ({words})"


_HOW = {"assumed": "assumed", "given": "given", "bytes": "known from the bytes"}


def plan_lines(plan: model.Plan, palette: Palette, columns: int, *, head: bool = True) -> Iterator[str]:
    """What would be done, why, what goes and comes back, what is left; with a `head`, for which store."""
    if head:
        yield palette.bold(f"Store {visible(plan.store.root)}")
        found = severity_words(plan.counts, palette) or "nothing"
        yield f"  read as RocketMQ {visible(plan.store.version)}; found at level {plan.level}: {found}"
    if plan.actions:
        yield from ("", palette.bold("Planned actions, in order"))
    for number, action in enumerate(plan.actions, 1):
        yield from _action(number, action, palette, columns)
    losses = [*chain.from_iterable(action.losses for action in plan.actions)]
    lost = (palette.warning(f"  {line}") for line in map(loss_text, losses))
    yield from section(palette.bold("What is lost"), _some(lost, len(losses)))
    gains = total_gains(plan.actions)
    if gains:
        yield from ("", palette.bold("What is regained"))
        for what, count in gains.items():
            yield f"  {count_of(count, visible(what))}"
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


def _refused(refused: Sequence[model.RefusedAction], palette: Palette, columns: int) -> Iterator[str]:
    """Actions that a trial of the plan left out."""

    def lines() -> Iterator[str]:
        for item in refused[:SHOWN]:
            yield f"  {visible(f'{item.name} {item.target}')}"
            yield from wrapped(visible(item.reason), columns, "    ")
        yield from _some((), len(refused))

    return section(palette.bold("What is refused"), lines())


def severity_words(counts: Mapping[str, int], palette: Palette) -> str:
    """Counts by rule as "2 errors, 1 warning"."""
    totals = dict.fromkeys(NOUNS, 0)
    for rule, count in counts.items():
        totals[RULES[rule].severity] += count
    return ", ".join(
        paint(palette, severity, count_of(totals[severity], noun))
        for severity, noun in NOUNS.items()
        if totals[severity]
    )


def _assumptions(items: Sequence[model.Assumption], palette: Palette, columns: int) -> Iterator[str]:
    """What the actions write by, and how each value is known: what is assumed one by one."""
    if items:
        yield from ("", palette.bold("What this relies on"))
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


def _notices(items: Sequence[model.Notice], palette: Palette, columns: int) -> Iterator[str]:
    """What the broker and its consumers will notice."""
    if items:
        yield from ("", palette.bold("What the broker and its consumers notice"))
    for item in items:
        lines = wrapped(visible(notice_text(item)), columns, "  ")
        yield from lines if item.kind in HARMLESS else (palette.warning(line) for line in lines)


def _conflicts(plan: model.Plan, palette: Palette) -> Iterator[str]:
    """What another copy has and this store does not get."""
    if not plan.conflict_count:
        return
    count = count_of(plan.conflict_count, "record")
    yield from ("", palette.bold(f"What is not taken from the other copy: {count}"))
    lines = (
        f"  {count_of(item.record_count, 'record')}, physical offset {item.start_offset} to "
        f"{item.end_offset}: {sentence(item.reason)}"
        for item in plan.conflicts
    )
    yield from _some((palette.warning(line) for line in lines), len(plan.conflicts))


def loss_text(loss: model.Loss | model.Gain) -> str:
    """A loss or a gain in a printable line, with its exact offsets."""
    parts = [count_of(loss.count, visible(loss.what))]
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
    kept = f" (kept in {visible(loss.kept_in)})" if isinstance(loss, model.Loss) and loss.kept_in else ""
    return ", ".join(parts) + kept


def _action(number: int, action: model.Action, palette: Palette, columns: int) -> Iterator[str]:
    target = visible(action.target) or "the store"
    yield f"  {number}. {palette.good(visible(action.name))} {palette.bold(target)}"
    yield from wrapped(sentence(action.note), columns, "     ")
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
    return some(lines, count, SHOWN, f"  {_MORE}")


def _unanswered(
    title: str, items: Sequence[model.Unanswered], columns: int, palette: Palette
) -> Iterator[str]:
    if items:
        yield from ("", palette.bold(title))
    alike: dict[str, list[model.Unanswered]] = {}
    for item in items[:SHOWN]:
        alike.setdefault(item.reason, []).append(item)
    for reason, same in alike.items():
        for item in same:
            name = paint(palette, RULES[item.rule].severity, item.rule)
            yield f"  {name} {sentence(item.message)}"
        yield from wrapped(sentence(reason), columns, "    ")
    yield from _some((), len(items))


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
        yield from ("", palette.bold("Findings"))
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
    return _under_head(rows, palette)


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
    return f"{why}: {palette.good(sentence(command))}"


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
            yield f"Messages: {sentence(report.messages.words)}."
    if report.kept:
        yield f"What had been written since is kept in {visible(report.kept)}."
    if report.kept_is_shared:
        yield "Some of its files are the store's own: copy it elsewhere before a broker starts."
    yield _next(f"rocketfsck check {shlex.quote(report.store)}", palette)
