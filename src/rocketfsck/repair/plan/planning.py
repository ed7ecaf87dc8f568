"""From a report to a plan: every finding goes to the repair that its rule names, whose row makes actions.

The same action wanted for several findings is one action that names them all. What no action answers is in
the plan, too, with the reason. Actions come in the order of their rows; none may change bytes that another
one relies on.

All findings of damage that is repaired place by place, however many of them a report lists.

A report lists the first findings of a rule in a file and counts the others. A plan needs each of them where
its actions name places in the commit log: the file is checked once more, for these rules alone.

    findings listed + "a further 234"  ->  all findings, up to `PLACE_LIMIT` of a rule in a file

What is beyond that limit stays a count, which the plan leaves unanswered. Records with a wrong CRC are not
listed: a file may have hundreds of thousands, which their repair finds by a scan of its own.

Opens a store exactly as a plan says: its version, its sizes, its settings, wherever its bytes now are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rocketfsck._version import __version__
from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dialect import is_newer, parse_version
from rocketfsck.progress import phase
from rocketfsck.query.nodes import node_side
from rocketfsck.repair.apply.judging import START_SETTINGS
from rocketfsck.repair.area.manifests import dead_link_above, pin_on
from rocketfsck.repair.log import read_log_end
from rocketfsck.repair.plan import table as plan_table
from rocketfsck.repair.plan.arguments import GroupOffset
from rocketfsck.repair.plan.basis import confirming
from rocketfsck.repair.plan.law import CLEARING, areas_changed, areas_written, dependents, judge, unknown_in
from rocketfsck.repair.plan.model import Action, Plan, PlanTarget, Unanswered
from rocketfsck.repair.repairs import ALL
from rocketfsck.repair.repairs import reasons as repairs_reasons
from rocketfsck.repair.repairs.answers import queue_of
from rocketfsck.repair.repairs.groupoffsets import NAME as SETTING
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.geometry import SETTINGS
from rocketfsck.store.model import Store
from rocketfsck.store.opening import DIRECTORIES
from rocketfsck.store.rocks.families import MESSAGE_DATABASE
from rocketfsck.verify.finding import TREES, Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.run import store_facts
from rocketfsck.verify.tasks.task import Context, LogFileTask, is_aggregate
from rocketfsck.verify.watched import doubtful_areas
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

INDEX_SWITCH = "messageIndexEnable"
LOOKED_AT = (INDEX_SWITCH, "messageIndexSafe", *START_SETTINGS)
"""Settings, besides sizes, that a check, or a predicted start, looks at."""


def describe_store(store: Store) -> PlanTarget:
    """How a store is to be opened again."""
    evidence = store.dialect_evidence
    return PlanTarget(
        root=str(store.root),
        version=str(store.dialect.version),
        geometry={name: getattr(store.geometry, name) for name in GEOMETRY_DEFAULTS},
        commitlog_paths=tuple(store.commitlog.locations) if _is_stated(store) else (),
        delay_levels=store.delay_levels,
        log_start_offset=store.commitlog.start_offset,
        log_end_offset=store.commitlog.end_offset,
        versions=tuple(map(str, evidence.versions)),
        version_given=evidence.given,
        settings=_stated_settings(store),
        delay_levels_given=store.delay_levels_source == "given",
    )


def _stated_settings(store: Store) -> dict[str, str]:
    """What a broker.conf sets of what is looked at; a default where it sets none of that: there was one."""
    values = store.settings.values
    stated = {name: values[name] for name in LOOKED_AT if name in values}
    return stated or ({} if store.settings.path is None else {INDEX_SWITCH: "true"})


def _is_stated(store: Store) -> bool:
    """Whether the commitlog is elsewhere than where it is looked for."""
    return store.commitlog.locations not in ((f"{store.root}/commitlog",), (str(store.root),))


def open_planned(
    planned: PlanTarget, root: Path, commitlog_paths: Sequence[Path], settings: ConfinedPlace
) -> Store:
    """The store below `root` as the plan's store was opened.

    `settings` is a file that is written for it. Raises StoreError as `open_store` does, UsageError for what
    is not a version or a size.
    """
    lines = [f"{name}={value}" for name, value in planned.settings.items() if name in LOOKED_AT]
    for name, size in planned.geometry.items():
        if name not in SETTINGS or size <= 0:
            raise UsageError(f"plan: store.geometry: {name!a} of {size} is not a size of a store's files")
        # A size that no broker.conf can set was read off the files, and will be again.
        if size < 1 << 31 and size % SETTINGS[name].multiple == 0:
            lines.append(f"{SETTINGS[name].names[0]}={size}")
    if any("\n" in line or "\\" in line or "\r" in line for line in lines):
        raise UsageError("plan: store.settings: a value has more than one line")
    if fileops.exists(settings):
        fileops.unlink(settings)
    fileops.create(settings, 0, 0o644)
    fileops.write(settings, 0, ("\n".join(lines) + "\n").encode("latin-1", "replace"))
    store = open_store(
        root,
        broker_conf=Path(settings),
        version=planned.version,
        commitlog_paths=commitlog_paths,
        # the default, said as if it were given, would keep a check from reading them off the units
        delay_levels=planned.delay_levels if planned.delay_levels_given else None,
    )
    versions = tuple(parse_version(version) for version in planned.versions)
    evidence = replace(
        store.dialect_evidence,
        given=planned.version_given,
        versions=versions or (store.dialect.version,),
    )
    # sizes were put in a file for this opening alone: what a broker.conf leaves out says nothing without one
    read = store.settings if planned.settings else replace(store.settings, path=None)
    return replace(store, dialect_evidence=evidence, settings=read)


PLACE_LIMIT = 20_000
"""Findings of a rule in a file that are looked at one by one."""
_BY_A_SCAN = frozenset({RuleName.RECORD_BODY_CRC})


def full_scene(store: Store, report: Report) -> plan_table.PlanScene:
    """The scene of a plan for a store that was checked, with all findings that its repairs ask for."""
    return plan_table.PlanScene(store, report, all_findings(store, report))


def all_findings(store: Store, report: Report) -> tuple[Finding, ...]:
    """The findings of a report, and those that it only counts in place of their number, file by file.

    `store` is the one that was checked, unchanged. What cannot be read again stays a count.
    """
    repaired = {rule for row in ALL for rule in row.answers}
    repaired |= {rule.id for rule in RULES.values() if rule.repair is not None}
    asked: dict[str, set[str]] = {}
    for finding in report.findings:
        name = finding.where.file
        if is_aggregate(finding) and finding.rule in repaired - _BY_A_SCAN:
            asked.setdefault(name, set()).add(finding.rule)
    found: dict[tuple[str, str], list[Finding]] = {}
    for number, file in enumerate(store.commitlog.files):
        rules = asked.get(file.relative)
        if rules:
            for finding in _checked_again(store, report, number, rules):
                found.setdefault((finding.rule, finding.where.file), []).append(finding)
    listed = count_by_place(report.findings)
    whole = {key: rows for key, rows in found.items() if count_by_place(rows) == {key: listed.get(key)}}
    if not whole:
        return report.findings
    seen: set[tuple[str, str]] = set()
    result: list[Finding] = []
    for finding in report.findings:
        key = finding.rule, finding.where.file
        if key not in whole:
            result.append(finding)
        elif key not in seen:
            seen.add(key)
            result += whole[key]
    return tuple(result)


def count_by_place(findings: Iterable[Finding]) -> dict[tuple[str, str], int]:
    """How many findings of each rule each file has, with each of those that one stands for."""
    totals: dict[tuple[str, str], int] = {}
    for finding in findings:
        key = finding.rule, finding.where.file
        totals[key] = totals.get(key, 0) + finding.count
    return totals


@phase("looking at all damage of a file")
def _checked_again(store: Store, report: Report, number: int, rules: set[str]) -> Iterable[Finding]:
    """What a check of one commit log file finds of these rules."""
    from rocketfsck.verify.log.file import check_log_file

    context = Context(
        store,
        report.level,
        report.started_timestamp,
        PLACE_LIMIT,
        data_size=store.commitlog.files[number].allocated_size,
        total_limit=len(rules) * PLACE_LIMIT,
        only=frozenset(rules),
    )
    try:
        return check_log_file(LogFileTask(context, number)).findings
    except StoreError:
        return ()


NO_REPAIR = "no automatic repair exists; see rocketfsck explain {rule}"
NOT_HERE = "{repair} does not apply in this case; see rocketfsck explain {rule}"
NOT_ASKED = "left out: only other repairs were asked for"
DECLINED = "left out: {repair} was declined"
NOT_PREEN = "{repair} is not provably safe; plan without --preen to include it"
UNPREENED = "left out: your config keeps --preen from what answers {rules}"
NOT_CONFIRMED = "{repair} assumes {values}: confirm with {options}"
NOT_CHOSEN = "left out: this action was not chosen"
NOT_BUILT = "the repair {repair} is not automatic"
UNREAD = "no repair is planned for a store of which a part cannot be read"
NOT_ALONE = "{repair} needs {needed}, which is left out"
EVIDENCE = frozenset({"index", *TREES.values(), *QUEUE_DATABASES, MESSAGE_DATABASE})
"""The areas whose content a broker derives from the log."""
NOT_UNDERSTOOD = (
    "{repair} would change data that this version does not understand; --only {repair} forces the repair"
)


def all_repairs() -> Mapping[str, plan_table.Row]:
    """The rows of the table of repairs by name."""
    return {repair.name: repair for repair in ALL}


def repairs_of(rule: str) -> tuple[str, ...]:
    """The repairs that can answer a breach of a rule, in the order of the table."""
    named = RULES[rule].repair
    return tuple(row.name for row in all_repairs().values() if row.name == named or rule in row.answers)


def rules_of(repair: plan_table.Row) -> tuple[str, ...]:
    """The rules whose breaches a repair can answer."""
    return tuple(
        rule.id for rule in RULES.values() if rule.repair == repair.name or rule.id in repair.answers
    )


@phase("planning the repair")
def make_plan(
    store: Store,
    report: Report,
    *,
    preen: bool = False,
    only: Collection[str] = (),
    except_: Collection[str] = (),
    confirmed_names: Collection[str] | None = None,
    declined: Collection[str] = (),
    left_out: Collection[plan_table.ActionKey] = (),
    unpreened: Collection[str] = (),
    wished: tuple[GroupOffset, ...] = (),
    repairs: Mapping[str, plan_table.Row] | None = None,
    scene: plan_table.PlanScene | None = None,
) -> Plan:
    """What is to be done about the findings of a report.

    `preen` leaves only what is provably safe, and answers no rule that is `unpreened`. `only` and `except_`
    name repairs, as a plan does: with `only`, what must follow a repair that is named comes with it. What
    would change an area that holds something unknown is left out, unless `only` names it. With
    `confirmed_names`, what assumes another value than those is left out; so are the actions whose names are
    `declined`, and the single actions of the keys `left_out`. What needs an action that is left out, for
    whichever reason, is left out with it. `wished` are committed offsets that are
    set. `scene` is that of an earlier plan for the same store and report:
    what was read for that plan is not read again. Raises UsageError for a name that no repair has, or a
    report of another state of the store; StoreError if the store cannot be read.
    """
    table = all_repairs() if repairs is None else repairs
    for name in (*only, *except_):
        if name not in table:
            known = ", ".join(sorted(table))
            raise UsageError(f"no repair has the name {printable(name)!r}; the names are {known}")
    _refuse_other_state(store, report)
    scene = scene or full_scene(store, report)
    scene = replace(scene, wished=wished) if wished else scene
    pins = scene.once(repairs_reasons.pins_now)
    made: list[Action] = []
    left: list[Action] = []
    reasons: dict[str, str] = {}
    said: dict[str, str] = {}
    asked_by: dict[plan_table.ActionKey, list[str]] = {}
    asked = _by_repair(scene.findings, only)
    if wished:
        asked.setdefault(SETTING, [])
    for name, findings in asked.items():
        repair = table.get(name)
        if repair is None:
            reasons[name] = NOT_BUILT
        else:
            reasons[name] = NOT_ASKED if name in except_ else NOT_HERE
            for action in scene.drafts(name, findings, repair.plan):
                if {name, action.name} & {*except_} or (only and not {name, action.name} & {*only}):
                    reasons[name] = NOT_ASKED
                    left.append(action)
                    continue
                asked_by.setdefault(plan_table.action_key(action), []).append(name)
                made.append(action)
    kept: list[Action] = []
    for action in plan_table.merged(made):
        judged = judge(scene, action, table[action.name])
        reason = _objection(scene, judged, table[action.name], preen=preen, forced=action.name in only)
        reason = reason or _unconfirmed(scene, judged, confirmed_names)
        kept_from = sorted({*action.rules} & {*unpreened}) if preen else []
        reason = UNPREENED.replace("{rules}", ", ".join(kept_from)) if kept_from else reason
        reason = DECLINED if action.name in declined else reason
        places = table[action.name].places(action)
        if any(pin_on(place, pins) for place in places):
            reason = repairs_reasons.LINKED
        elif any(dead_link_above(str(store.root), place) for place in places):
            reason = repairs_reasons.DEAD_LINK
        if not reason and plan_table.action_key(action) in left_out:
            said |= dict.fromkeys(action.why, NOT_CHOSEN)
            left.append(action)
        elif reason:
            reasons |= dict.fromkeys(
                asked_by[plan_table.action_key(action)], reason.replace("{repair}", action.name)
            )
            left.append(action)
        else:
            kept.append(judged)
    keys = {plan_table.action_key(action) for action in kept}
    gone = [action for action in left if plan_table.action_key(action) not in keys]
    names = {action.name for action in gone}
    needing = dependents(kept, gone, table)
    keys -= {plan_table.action_key(action) for action, _ in needing}
    kept = [action for action in kept if plan_table.action_key(action) in keys]
    for action, needed in needing:
        reason = NOT_ALONE.replace("{repair}", action.name).replace("{needed}", needed)
        reasons |= dict.fromkeys({*asked_by[plan_table.action_key(action)]} - names, reason)
        said |= dict.fromkeys(action.why, reason)
    actions = counted(plan_table.ordered(plan_table.absorbed(kept, table), table), scene.findings)
    plan_table.refuse_overlaps(actions)
    return Plan(
        store=describe_store(store),
        level=report.level,
        tool_version=__version__,
        actions=actions,
        unanswered=tuple(_unanswered(scene, actions, reasons, said)),
        counts={rule: count for rule, count in report.counts.items() if count},
        answered_counts=answered_counts(scene.findings, actions),
        messages_now=None if report.account is None else report.account.fates,
    )


def counted(actions: Iterable[Action], findings: Iterable[Finding]) -> tuple[Action, ...]:
    """The actions, each with the number of these findings that it answers."""
    counts = {finding.fingerprint: finding.count for finding in findings}

    def count(action: Action) -> int:
        whole = sum(counts.get(name, 0) for name in action.why if name not in action.partly)
        return whole + sum(action.partly.values())

    return tuple(replace(action, finding_count=count(action)) for action in actions)


def answered_counts(findings: Iterable[Finding], actions: Iterable[Action]) -> dict[str, int]:
    """How many findings above info actions answer, by rule, each of those that one stands for."""
    listed = list(actions)
    answered = {name for action in listed for name in action.why}
    partly = {name: count for action in listed for name, count in action.partly.items()}
    totals: Counter[str] = Counter()
    for finding in findings:
        if RULES[finding.rule].severity > Severity.INFO:
            name = finding.fingerprint
            totals[finding.rule] += finding.count if name in answered else partly.get(name, 0)
    return {rule: count for rule, count in sorted(totals.items()) if count}


def _refuse_other_state(store: Store, report: Report) -> None:
    for item in report.not_checked:
        if item.operational and item.what.split("/")[0] in DIRECTORIES:
            raise StoreError(f"{UNREAD}: {item.reason}", path=f"{store.root}/{item.what}")
    if not report.coverage.complete:
        raise UsageError(f"the report covers only a part of the store: {report.coverage.statement}")
    if report.suppressed or report.withheld:
        what = "a baseline" if report.suppressed else "a max_count in a config file"
        raise UsageError(f"the report was made with {what}; a plan needs all findings")
    facts = store_facts(store)
    for name in ("dialect", "geometry", "file_count", "byte_count", "start_offset", "end_offset"):
        then, now = getattr(report.store, name), getattr(facts, name)
        if then != now:
            what = name.replace("_", " ")
            raise UsageError(
                f"the report belongs to another store or another state: {what} {then}, now {now}"
            )


def _by_repair(findings: Iterable[Finding], only: Collection[str]) -> dict[str, list[Finding]]:
    """What asks for each repair. What is only information does so only for repairs that are named."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        name = RULES[finding.rule].repair
        if name is not None and (RULES[finding.rule].severity > Severity.INFO or name in only):
            groups.setdefault(name, []).append(finding)
    return groups


def _objection(
    scene: plan_table.PlanScene, action: Action, repair: plan_table.Row, *, preen: bool, forced: bool
) -> str:
    """Why the law keeps an action out of the plan; "" where it does not."""
    doubtful = doubtful_areas(scene.findings)
    if "commitlog" in doubtful or not doubtful.isdisjoint(areas_changed(action, repair)):
        return repairs_reasons.READS_DIFFER
    if unknown_in(scene, action, repair) and not forced:
        return NOT_UNDERSTOOD
    if is_newer(scene.store.dialect.version) and not forced:
        return repairs_reasons.NEWER_VERSION
    if scene.store.has_entries and any(map(is_of_dledger, areas_written(action, repair))):
        return repairs_reasons.OF_DLEDGER
    derived = not EVIDENCE.isdisjoint(areas_changed(action, repair))
    if derived and not forced and scene.once(is_log_unreadable):
        return repairs_reasons.NO_LOG
    if derived and "commitlog" in repair.areas and not forced and scene.once(has_open_entries):
        return repairs_reasons.OPEN_ENTRIES
    return NOT_PREEN if preen and not action.preen else ""


def _unconfirmed(scene: plan_table.PlanScene, action: Action, names: Collection[str] | None) -> str:
    """What an action assumes that nobody confirmed; "" if nothing."""
    if names is None:
        return ""
    left = [item for item in action.assumptions if item.how == "assumed" and item.name not in names]
    if not left:
        return ""
    values = ", ".join(f"{item.name} {printable(str(item.value))}" for item in left)
    options = confirming([item.name for item in left], scene.store.geometry.contradicted)
    return NOT_CONFIRMED.replace("{values}", values).replace("{options}", options)


def is_of_dledger(area: str) -> bool:
    """Whether an area holds the log of a store whose log is DLedger's, or what its recovery goes by."""
    return area in ("", "commitlog", "checkpoint", "abort") or area.startswith("dledger-")


def has_open_entries(scene: plan_table.PlanScene) -> bool:
    """Whether the log is DLedger's and ends with entries that its node does not treat as agreed on.

    A broker dispatches none of them, and another leader of the group may have others in their place.
    """
    node = node_side(scene.store)
    if node is None or node.last_index is None:
        return False
    return node.committed_index is None or node.committed_index < node.last_index


def is_log_unreadable(scene: plan_table.PlanScene) -> bool:
    """Whether the log has bytes, and none of them are a record: the wrong file, another format, destroyed."""
    return (
        any(finding.rule == RuleName.LOG_NO_RECORDS for finding in scene.findings)
        and read_log_end(scene.store) is None
    )


def _unanswered(
    scene: plan_table.PlanScene,
    actions: Sequence[Action],
    reasons: Mapping[str, str],
    said: Mapping[str, str],
) -> Iterable[Unanswered]:
    """What no action answers, and why: what is `said` of a finding, by its fingerprint, or of its repair."""
    answered = {name for action in actions for name in action.why}
    partly = {name: count for action in actions for name, count in action.partly.items()}
    hidden = any(RuleName.BLANK_TOO_EARLY in action.rules for action in actions)
    unclear = scene.once(repairs_reasons.contested)
    moved = {action.target for action in actions if action.name == CLEARING}
    blocked = repairs_reasons.blocked_directories(scene.store, moved)
    for finding in scene.findings:
        rule = RULES[finding.rule]
        if rule.severity is Severity.INFO or finding.fingerprint in answered:
            continue
        reason = NO_REPAIR if rule.repair is None else reasons[rule.repair]
        if reason in (NO_REPAIR, NOT_HERE):
            asks = rule.repair == "rebuild-queue"
            later = repairs_reasons.HIDDEN if hidden and asks else ""
            here = (
                repairs_reasons.impossible(finding)
                or repairs_reasons.in_the_way(scene.store, finding)
                or repairs_reasons.underived(finding)
                or repairs_reasons.made_by_a_start(finding)
            )
            if asks:
                here = (
                    here
                    or repairs_reasons.occupied(blocked, finding)
                    or repairs_reasons.linked(scene, finding)
                )
            disputed = repairs_reasons.CONTESTED if asks and queue_of(finding) in unclear else ""
            reason = here or later or disputed or repairs_reasons.REASONS.get(rule.id, reason)
        reason = said.get(finding.fingerprint, reason)
        text = reason.format(repair=rule.repair, rule=rule.id)
        count = finding.count - partly.get(finding.fingerprint, 0)
        yield Unanswered(finding.fingerprint, rule.id, describe(finding), text, count)
