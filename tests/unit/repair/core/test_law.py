"""The law of safety: what an action writes by is known, nobody notices a change, nothing there is unknown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.formats.consumequeue import BATCH_UNIT
from rocketfsck.formats.timer import DEFAULT_DELAY_LEVELS
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.arguments import DelayLevels, QueuesToBuild
from rocketfsck.repair.plan.basis import BASES, StoreAlone, assumptions_of, confirming
from rocketfsck.repair.plan.law import (
    KINDS,
    all_assumptions,
    assume_options,
    confirmed,
    dependents,
    notice_text,
    total_notices,
)
from rocketfsck.repair.plan.model import Action, Assumption, Notice, Plan
from rocketfsck.repair.plan.planning import all_repairs, make_plan
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.repair.repairs import index as index_repairs
from rocketfsck.repair.repairs.groupoffsets import committed_behind, delay_follows, new_end
from rocketfsck.store import Store, open_store
from rocketfsck.store.circumstances import Settings
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.rules.catalog import RULES, UNKNOWN_RULES
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.repair.build.making import START, change_log, make_store, message, records

NOW = 1_800_000_000_000
SIZE = "consumequeue_file_size"


def check(store: Store) -> Report:
    return check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))


def plan_of(store: Store, **options: object) -> Plan:
    return make_plan(store, check(store), **options)  # type: ignore[arg-type]


def how(plan: Plan) -> dict[str, tuple[int | str, str]]:
    return {item.name: (item.value, item.how) for item in all_assumptions(plan.actions)}


def queue_files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / "consumequeue").rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def without_queues(store_copy: Directory) -> Path:
    """A store with queue files of 600 bytes, all of which are gone."""
    root = store_copy("4.9.8-basic")
    shutil.rmtree(root / "consumequeue")
    return root


def conf(folder: Path, text: str) -> Path:
    path = folder / "broker.conf"
    path.write_text(text)
    return path


def test_a_size_that_no_file_tells_is_assumed_and_refused(without_queues: Path) -> None:
    store = open_store(without_queues)
    plan = plan_of(store)
    (action,) = [item for item in plan.actions if item.name == "rebuild-queue"]
    assert not action.preen
    assert how(plan)[SIZE] == (6_000_000, "assumed")
    safe = plan_of(store, preen=True)
    assert "rebuild-queue" not in {item.name for item in safe.actions}
    assert "not provably safe" in next(item.reason for item in safe.unanswered if item.rule == "XR002")
    with pytest.raises(UsageError, match=f"{SIZE}=6000000 .*--broker-conf FILE.* or --assume {SIZE}$"):
        apply_plan(plan)
    assert not (without_queues / "consumequeue").exists()


def test_the_brokers_settings_make_it_known(
    without_queues: Path, store_dir: Directory, tmp_path: Path
) -> None:
    stated = conf(tmp_path, "mappedFileSizeConsumeQueue=590\n")  # which a broker rounds up to whole units
    plan = plan_of(open_store(without_queues, broker_conf=stated))
    assert how(plan)[SIZE] == (600, "given")
    assert all(action.preen for action in plan.actions)
    assert apply_plan(plan).published
    assert queue_files(without_queues) == queue_files(store_dir("4.9.8-basic"))


def test_settings_that_say_nothing_say_the_default(without_queues: Path, tmp_path: Path) -> None:
    plan = plan_of(open_store(without_queues, broker_conf=conf(tmp_path, "brokerName=a\n")))
    assert how(plan)[SIZE] == (6_000_000, "given")


def test_an_assumption_is_confirmed_by_name_or_by_settings(without_queues: Path) -> None:
    plan = plan_of(open_store(without_queues))
    for text in (SIZE, f"{SIZE}=6000000", "mappedFileSizeConsumeQueue=5999999"):
        left = all_assumptions(confirmed(plan, [text], None).actions)
        (item,) = [item for item in left if item.name == SIZE]
        assert item.how == "given" and f"confirmed by --assume {SIZE}" in item.evidence
    silent = all_assumptions(confirmed(plan, (), Settings(None, {})).actions)
    assert {item.name: item.evidence for item in silent}[SIZE].startswith("confirmed by broker.conf")
    refusals: list[tuple[Sequence[str], Settings | None, str]] = [
        ([f"{SIZE}=600"], None, "is 600, but the plan was made with 6000000; make a new plan with --broker"),
        (["slot_count"], None, f"does not depend on 'slot_count'; it depends on {SIZE}"),
        ((), Settings(None, {"mapedFileSizeConsumeQueue": "600"}), "is 600 in broker.conf, but the plan"),
        ([SIZE], Settings(None, {"mapedFileSizeConsumeQueue": "600"}), "is 600 in broker.conf"),
        ((), Settings(None, {"mappedFileSizeConsumeQueue": "x"}), "is x in broker.conf"),
    ]
    for assume, settings, says in refusals:
        with pytest.raises(UsageError, match=says):
            confirmed(plan, assume, settings)
    report = apply_plan(plan, assume=[SIZE])
    assert report.published and report.assumptions == all_assumptions(confirmed(plan, [SIZE], None).actions)


def test_what_was_known_must_agree_with_the_settings_too(store_copy: Directory) -> None:
    root = store_copy("4.9.8-basic")
    shutil.rmtree(next(iter(sorted((root / "consumequeue").iterdir()))))
    plan = plan_of(open_store(root))
    assert how(plan)[SIZE] == (600, "bytes") and all(action.preen for action in plan.actions)
    with pytest.raises(UsageError, match=r"is 6000000 in broker\.conf, but the plan"):
        confirmed(plan, (), Settings(None, {}))
    assert confirmed(plan, (), None) == plan


def test_a_given_size_that_the_bytes_contradict_is_not_known(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy("4.9.8-basic")
    shutil.rmtree(next(iter(sorted((root / "consumequeue").iterdir()))))
    plan = plan_of(open_store(root, broker_conf=conf(tmp_path, "mappedFileSizeConsumeQueue=1200\n")))
    assert how(plan)[SIZE] == (1200, "assumed")
    assert not [action for action in plan.actions if action.preen and action.name == "resize-segment"]


def test_who_gave_a_broker_conf_is_not_asked_for_it_again(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy("4.9.8-basic")
    shutil.rmtree(next(iter(sorted((root / "consumequeue").iterdir()))))
    store = open_store(root, broker_conf=conf(tmp_path, "mappedFileSizeConsumeQueue=1200\n"))
    assert confirming([SIZE], store.geometry.contradicted) == f"--assume {SIZE}"
    assert confirming([SIZE]) == f"--broker-conf FILE or --assume {SIZE}"
    report = check_store(store)
    plan = make_plan(store, report, confirmed_names=())
    reasons = {item.reason.partition(": ")[2] for item in plan.unanswered if "assumes" in item.reason}
    assert reasons == {f"confirm with --assume {SIZE}"}


def test_one_commit_log_file_of_its_own_length_tells_no_size(store_copy: Directory) -> None:
    root = store_copy("4.9.8-basic")
    with next((root / "commitlog").iterdir()).open("r+b") as stream:
        stream.truncate(131_092)
    plan = plan_of(open_store(root))
    (action,) = [item for item in plan.actions if item.name == "resize-segment"]
    assert not action.preen and how(plan)["commitlog_file_size"] == (1 << 30, "assumed")
    with pytest.raises(UsageError, match="commitlog_file_size=1073741824"):
        apply_plan(plan)


def test_delay_levels_are_known_from_units_that_are_left(store_copy: Directory) -> None:
    root = store_copy("4.9.8-delay")
    queues = sorted((root / "consumequeue" / "SCHEDULE_TOPIC_XXXX").iterdir())
    first = next(queues[0].iterdir())
    first.write_bytes(first.read_bytes()[:12] + bytes(8) + first.read_bytes()[20:])
    plan = plan_of(open_store(root))
    assert how(plan)["delay_levels"][1] == "bytes" and all(action.preen for action in plan.actions)
    shutil.rmtree(queues[0])
    plan = plan_of(open_store(root))
    level = int(queues[0].name) + 1
    assert how(plan)["delay_levels"][1] == "assumed"
    assert f"level {level}" in str(all_assumptions(plan.actions))
    assert how(plan_of(open_store(root, delay_levels="1s 5s 10s")))["delay_levels"] == ("1s 5s 10s", "given")


def test_kinds_of_queues_are_not_known_without_topics(store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    for file in (root / "config").glob("topics.json*"):
        file.unlink()
    assert how(plan_of(open_store(root)))["queue_kinds"][1] == "assumed"


def test_what_consumers_notice_is_in_plan_report_and_ledger(store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.4.0-multiseg"), root, ["missing-segment"], 1, write_truth=False)
    plan = plan_of(open_store(root))
    lost = sum(loss.count for action in plan.actions for loss in action.losses if loss.what == "record")
    notices = {item.kind: item.count for item in total_notices(plan.actions)}
    assert notices == {"fillers-delivered": lost, "file-made-up": 1} and lost > 100
    assert not next(action for action in plan.actions if action.name == "fence-gap").preen
    assert how(plan)["missing_files"] == ("are lost", "assumed")
    with pytest.raises(UsageError, match="--assume missing_files"):
        apply_plan(plan)
    report = apply_plan(plan, assume=["missing_files"])
    assert {item.kind: item.count for item in report.ledger.notices} == notices
    kept = json.loads((Path(report.kept) / "ledger.json").read_text())
    assert [item["kind"] for item in kept["notices"]] == ["fillers-delivered", "file-made-up"]


def test_records_at_wrong_places_are_overwritten_by_name_only(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    file = sorted((root / "commitlog").iterdir())[1]
    data = file.read_bytes()
    file.write_bytes(data[:20_001] + data[20_002:] + b"\0")
    before = file.read_bytes()
    plan = plan_of(open_store(root))
    assert how(plan)["displaced_records"] == ("are given up", "assumed")
    with pytest.raises(UsageError, match="--assume displaced_records"):
        apply_plan(plan)
    assert file.read_bytes() == before
    report = apply_plan(plan, assume=["displaced_records"])
    assert report.published and file.read_bytes() != before


def test_an_end_before_a_committed_offset_is_noticed(store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("5.3.3-basic"), root, ["torn-tail"], 0, write_truth=False)
    plan = plan_of(open_store(root))
    (cut,) = [action for action in plan.actions if action.name == "cut-queue"]
    assert cut.notices == (Notice("committed-beyond", 1),) and not cut.preen
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{}}')
    (cut,) = [action for action in plan_of(open_store(root)).actions if action.name == "cut-queue"]
    assert cut.notices == () and cut.preen


def test_all_records_of_a_stale_tail_are_named(restart_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(restart_dir("4.9.8-ghosttail--as-is-second-restart"), tmp_path / "store")
    report = check(store := open_store(root))
    (tail,) = [finding for finding in report.findings if finding.rule == "CL021"]
    plan = make_plan(store, report)
    (action,) = [item for item in plan.actions if item.name == "zero-stale-tail"]
    named = sum(loss.count for loss in action.losses if loss.what == "record")
    assert named == tail.found["record_count"] and not action.preen
    assert all(loss.kept_in for loss in action.losses)


@pytest.mark.parametrize(
    "options",
    [{"preen": True}, {"except_": ["zero-stale-tail"]}, {"only": ["cut-queue"]}],
    ids=["preen", "except", "only"],
)
def test_what_needs_a_repair_is_left_out_with_it(store_dir: Directory, options: dict[str, object]) -> None:
    """Queues cut at the log's end without zeros behind that end miss what the next start takes up there."""
    root = store_dir("4.9.8-ghosttail")
    assert {"zero-stale-tail", "cut-queue"} <= {action.name for action in plan_of(open_store(root)).actions}
    plan = plan_of(open_store(root), **options)
    assert not {"zero-stale-tail", "cut-queue"} & {action.name for action in plan.actions}
    reasons = {item.rule: item.reason for item in plan.unanswered}
    left_out = {"preen": "cut-queue is not provably safe; plan without --preen to include it"}
    needs = "cut-queue needs zero-stale-tail, which is left out"
    assert reasons["XR004"] == left_out.get(next(iter(options)), needs)
    assert "cut-queue" not in reasons["CL021"]


def test_what_needs_a_dependent_is_one_too() -> None:
    actions = [Action(name, "", "") for name in ("set-delay-offset", "cut-queue", "rebuild-index")]
    found = dependents(actions, [Action("zero-stale-tail", "", "")], all_repairs())
    assert [(action.name, needed) for action, needed in found] == [
        ("cut-queue", "zero-stale-tail"),
        ("set-delay-offset", "cut-queue"),
    ]
    assert dependents(actions, [Action("write-blank", "", "")], all_repairs()) == []


def test_what_makes_files_needs_what_is_in_the_way_set_aside() -> None:
    name = f"commitlog/{2048:020}"
    queues = QueuesToBuild((("T", 1),))
    actions = [
        Action("fence-gap", name, ""),
        Action("rebuild-queue", "consumequeue", "", queues),
        Action("rebuild-index", "index", ""),
    ]

    def without(target: str) -> list[str]:
        left = [Action("move-stray", target, "")]
        return [action.name for action, needed in dependents(actions, left, all_repairs()) if needed]

    assert without(name) == ["fence-gap"]
    assert without(f"commitlog/{4096:020}") == []
    assert without("consumequeue/T") == without("consumequeue/T/1/x") == ["rebuild-queue"]
    assert without("consumequeue/T/11") == without("consumequeue/U") == []
    assert without("index") == ["rebuild-index"]


def test_zeros_in_the_middle_of_the_log_need_the_blank_behind_them() -> None:
    first, second = f"commitlog/{0:020}", f"commitlog/{2048:020}"
    actions = [Action("resize-segment", name, "") for name in (first, second)]
    (found,) = dependents(actions, [Action("write-blank", first, "")], all_repairs())
    assert (found[0].target, found[1]) == (first, "write-blank")


def test_an_area_with_something_unknown_is_left_alone(store_dir: Directory, tmp_path: Path) -> None:
    assert UNKNOWN_RULES
    root = tmp_path / "store"
    damage_store(store_dir("5.3.3-multiseg"), root, ["index-lost", "missing-queue"], 1, write_truth=False)
    store = open_store(root)
    report = check(store)
    unknown = Finding(min(UNKNOWN_RULES), Where("index"), {"areas": "index"})
    counts = {**report.counts, unknown.rule: 1}
    odd = replace(report, findings=(*report.findings, unknown), counts=counts)
    assert {action.name for action in make_plan(store, report).actions} == {"rebuild-queue", "rebuild-index"}
    plan = make_plan(store, odd)
    assert {action.name for action in plan.actions} == {"rebuild-queue"}
    reason = next(item.reason for item in plan.unanswered if RULES[item.rule].repair == "rebuild-index")
    assert reason.endswith("does not understand; --only rebuild-index forces the repair")
    (forced,) = make_plan(store, odd, only=["rebuild-index"]).actions
    assert not forced.preen and Notice("not-understood", 1) in forced.notices
    log = replace(unknown, where=Where("commitlog"), found={"areas": "commitlog"})
    assert not make_plan(store, replace(odd, findings=(*report.findings, log))).actions


def test_only_what_a_plan_calls_so(store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.4.0-multiseg"), root, ["missing-segment"], 1, write_truth=False)
    store = open_store(root)
    report = check(store)
    assert "fence-gap" in {action.name for action in make_plan(store, report, only=["fence-gap"]).actions}
    left = {action.name for action in make_plan(store, report, except_=["fence-gap"]).actions}
    assert "fence-gap" not in left
    assert not make_plan(store, report, except_=[*all_repairs()]).actions


@pytest.mark.parametrize("topic", [b".", b"/", b"\0"])
def test_a_topic_that_no_directory_can_have_blocks_nothing(topic: bytes, tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number, "AB"[number % 2], number % 3) for number in range(30)])
    offset, size = records(store)[7]
    data = (store.root / "commitlog" / f"{offset // 4096 * 4096:020d}").read_bytes()
    record = data[offset % 4096 : offset % 4096 + size]
    at = record.index(b"\x01B") + 1  # the length of the topic, and the topic
    change_log(store, offset + at, topic)
    shutil.rmtree(store.root / "consumequeue")
    again = open_store(store.root, broker_conf=tmp_path / "broker.conf", version="5.3.3")
    plan = plan_of(again)
    (left,) = [item for item in plan.unanswered if item.rule == "XR002"]
    assert left.reason == "no directory can have the topic's name, so no broker can create a queue for it"
    report = apply_plan(plan)
    assert report.published and not report.fresh and not report.unmet
    assert len(queue_files(store.root)) == 6


def test_delay_levels_of_its_own_raise_nothing_new(tmp_path: Path) -> None:
    levels = {**DEFAULT_DELAY_LEVELS, 1: 38_000}
    waiting = [
        message(number, "AB"[number % 2], properties={"KEYS": f"k{number}", "DELAY": str(number % 3 + 1)})
        for number in range(12)
    ]
    plain = [message(number, "C", timestamp=START + 100_000 + number) for number in range(12)]
    make_store(tmp_path, [*waiting, *plain], delay_levels=levels)
    root = tmp_path / "store"
    shutil.rmtree(root / "consumequeue" / "C")
    store = open_store(root)
    report = check(store)
    assert "XR008" not in report.counts or not report.counts["XR008"]
    assert [finding.found["delay_ms"] for finding in report.findings if finding.rule == "XR009"] == [38_000]
    done = apply_plan(make_plan(store, report))
    assert done.published and done.exit_code == 1 and "XR008" not in done.after


def test_a_rebuilding_says_what_it_takes_for_granted(without_queues: Path) -> None:
    store = StoreAlone(open_store(without_queues))
    queues = QueuesToBuild((("SCHEDULE_TOPIC_XXXX", 2), ("T", 0)))
    action = Action("", "consumequeue", "", queues)
    named = all_repairs()["rebuild-queue"].writes_by
    found = {name: BASES[name].read(store, action) for name in named}
    read = {name: item.how for name, item in found.items() if item is not None}
    assert read == {SIZE: "assumed", "delay_levels": "assumed"}


def test_words() -> None:
    for kind in KINDS:
        assert "{" not in notice_text(Notice(kind, 1)) + notice_text(Notice(kind, 2_000))
    assert notice_text(Notice("fillers-delivered", 1420)).startswith("consumers without a tag filter (`*`)")
    assert notice_text(Notice("of\x1bnobody", 3)) == "3 of\\x1bnobody"
    assert total_notices([Action("a", "", "", notices=(Notice("of nobody", 3),))]) == (
        Notice("of nobody", 3),
    )
    sure, unsure = Assumption("a", 1, "bytes", ""), Assumption("a", 1, "assumed", "")
    actions = [Action("", "", "", assumptions=(item,)) for item in (sure, unsure, sure)]
    assert all_assumptions(actions) == (unsure,)
    assert assume_options([sure]) == "" and assume_options([unsure]) == " --assume a"


def test_a_topic_whose_bytes_are_no_text_blocks_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number, "AB"[number % 2], number % 3) for number in range(30)])
    offset, size = records(store)[7]
    data = (store.root / "commitlog" / f"{offset // 4096 * 4096:020d}").read_bytes()
    at = data[offset % 4096 : offset % 4096 + size].index(b"\x01B") + 1
    change_log(store, offset + at, b"\xff")
    shutil.rmtree(store.root / "consumequeue")
    plan = plan_of(open_store(store.root, broker_conf=tmp_path / "broker.conf", version="5.3.3"))
    (left,) = [item for item in plan.unanswered if item.rule == "XR002"]
    assert left.reason.startswith("the topic is not valid UTF-8")
    report = apply_plan(plan)
    assert report.published and len(queue_files(store.root)) == 6


def test_offsets_of_delay_levels_follow_a_queue_that_is_cut(store_copy: Directory) -> None:
    root = store_copy("4.9.8-delay")
    file = root / "commitlog" / "00000000000000000000"
    file.write_bytes(file.read_bytes()[:3950].ljust(65536, b"\0"))
    plan = plan_of(open_store(root))
    (action,) = [item for item in plan.actions if item.name == "set-delay-offset"]
    assert isinstance(action.arguments, DelayLevels) and action.arguments.levels and not action.preen
    assert [notice.kind for notice in action.notices] == ["delay-moved"]
    report = apply_plan(plan)
    assert report.published and not report.fresh


def test_what_all_queues_are_written_by(store_dir: Directory, tmp_path: Path) -> None:
    every = Action("", "consumequeue", "", QueuesToBuild(None))
    row = all_repairs()["rebuild-queue"]
    store = open_store(store_dir("4.9.8-cqext"))
    read = {item.name: item.how for item in assumptions_of(StoreAlone(store), every, row.writes_by, ())}
    assert read["ext_file_size"] == read[SIZE] == "bytes"
    batch = StoreAlone(open_store(store_dir("5.0.0-innerbatch")))
    assert BASES["batch_file_size"].read(batch, every) is not None
    waiting = Finding("XR002", Where("", topic="SCHEDULE_TOPIC_XXXX", queue_id=2))
    alone = StoreAlone(open_store(store_dir("4.9.8-basic")), (waiting,))
    levels = BASES["delay_levels"].read(alone, every)
    assert levels is not None and levels.how == "assumed"
    silent = open_store(store_dir("4.9.8-basic"), broker_conf=conf(tmp_path, "brokerName=a\n"))
    levels = BASES["delay_levels"].read(StoreAlone(silent, (waiting,)), every)
    assert levels is not None and levels.how == "given"
    assert BASES["delay_levels"].read(StoreAlone(silent), every) is None
    old = StoreAlone(open_store(store_dir("4.9.8-basic"), version="4.9.8"))
    assert BASES["queue_kinds"].read(old, every) is None


def test_a_version_is_known_if_all_that_are_possible_do_the_same(store_dir: Directory) -> None:
    action, store = Action("", "index", ""), open_store(store_dir("4.9.8-basic"))
    (version,) = assumptions_of(StoreAlone(store), action, (), ("multi_dispatch",))
    assert version.how == "assumed" and "differ in multi_dispatch" in version.evidence
    (version,) = assumptions_of(StoreAlone(store), action, (), ("rocksdb_consumequeue",))
    assert version.how == "bytes"
    given = open_store(store_dir("4.9.8-basic"), version="4.9.7")
    (version,) = assumptions_of(StoreAlone(given), action, (), ("multi_dispatch",))
    assert (version.value, version.how) == ("4.9.7", "given")


def test_committed_offsets_and_ends(store_copy: Directory) -> None:
    root = store_copy("5.0.0-innerbatch")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "lmqConsumerOffset.json").write_text('{"lmqOffsetTable":{"%LMQ%a@%LMQ%g":9}}')
    store = open_store(root)
    scene = PlanScene(store, check(store), ())
    assert committed_behind(scene, {("%LMQ%a", 0): 8}) == 1
    assert committed_behind(scene, {("%LMQ%a", 0): 9}) == committed_behind(scene, {}) == 0
    queue = next(queue for queue in store.queues if queue.kind == "batch" and queue.files)
    base = BATCH_UNIT.parse(queue.files[0].path.read_bytes())["msgBaseOffset"]
    assert new_end(queue, 0) == {(queue.topic, queue.queue_id): base}
    odd = replace(scene, findings=(Finding("CF030", Where("config/delayOffset.json")),))
    assert not [*delay_follows(odd, {("SCHEDULE_TOPIC_XXXX", 0): 0})]


def test_a_commit_log_alone_does_not_tell_whether_tags_have_entries(
    store_dir: Directory, tmp_path: Path
) -> None:
    """5.2.0 to 5.5.1 fit the commit log of a 5.3.3 store; brokers from 5.4.0 on put one more entry."""
    (row,) = (row for row in index_repairs.ROWS if row.name == "rebuild-index")
    action = Action(row.name, "index", "")
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    (version,) = assumptions_of(StoreAlone(open_store(root)), action, (), row.traits)
    assert version.how == "bytes"
    alone = tmp_path / "alone"
    shutil.copytree(root / "commitlog", alone / "commitlog")
    (version,) = assumptions_of(StoreAlone(open_store(alone)), action, (), row.traits)
    assert version.how == "assumed"
    assert "tag_entries" in version.evidence
