"""Links, searches, findings and plans, without a screen."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from rocketfsck.cli.browse.model.cells import Fields
from rocketfsck.cli.browse.model.files import FilePlace, OpenFile, Question, SearchKind, Shelf
from rocketfsck.cli.browse.model.findings import CheckProgress, Findings, load_findings, run_check
from rocketfsck.cli.browse.model.links import Link, chain_links, links_of
from rocketfsck.cli.browse.model.repairs import plan_all, plan_without, save_plan
from rocketfsck.cli.browse.model.search import search
from rocketfsck.cli.browse.views.lines import stoppable
from rocketfsck.cli.dump.item import Item
from rocketfsck.cli.output import to_json
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import CancelledError, StoreError, UsageError
from rocketfsck.query.view import StoreView
from rocketfsck.repair.plan.document import read_plan
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Severity

from tests.conftest import Directory


def _shelf(root: Path) -> Shelf:
    return Shelf(open_store(root))


def _links(shelf: Shelf, place: FilePlace) -> list[Link]:
    row = shelf.row(place.name)
    assert row is not None
    file = shelf.open(row)
    try:
        (item,) = file.pages.forward(file.pages.locate(place.pos), 1)
        with StoreView(shelf.store) as view:
            return links_of(shelf, view, file, item)
    finally:
        file.close()


def _find(
    shelf: Shelf, kind: SearchKind, text: str, topic: str = "", file: OpenFile | None = None
) -> list[FilePlace]:
    with StoreView(shelf.store) as view:
        return search(shelf, view, Question(kind, text, topic), file, -1)


def _first(shelf: Shelf, kind: str) -> OpenFile:
    return shelf.open(next(row for row in shelf.rows if row.target.kind == kind))


def _checked(shelf: Shelf) -> Findings:
    return Findings(shelf, check_store(shelf.store, engine=LocalEngine(1)))


@pytest.mark.parametrize("name", ["4.9.8-basic", "5.0.0-innerbatch", "4.9.8-cqext", "5.3.3-trans"])
def test_every_record_leads_to_its_units_and_entries_and_back(name: str, store_dir: Directory) -> None:
    shelf = _shelf(store_dir(name))
    log = _first(shelf, "commitlog")
    records = [item for item in log.pages.forward(0, 400) if item.kind == "record"]
    assert len(records) > 20
    for item in records[::9]:
        here = FilePlace(log.row.key, item.start)
        links = _links(shelf, here)
        back = [
            other.place
            for link in links
            if link.place is not None and not link.title.startswith("prepared")
            for other in _links(shelf, link.place)
            if other.title.startswith("record at")
        ]
        assert back
        assert set(back) == {here}
        keys = len(
            {*item.values["keys"], *([item.values["unique_key"]] if item.values["unique_key"] else [])}
        )
        assert sum(link.title.startswith("index entry") for link in links) == keys
    log.close()


@pytest.mark.parametrize(
    ("name", "kind", "row", "target"),
    [
        ("5.5.0-timer", "timerlog", "unit", "commitlog"),
        ("5.5.0-timer", "timerwheel", "slot", "timerlog"),
        ("5.5.0-dledger", "dledger-index", "unit", "dledger-data"),
        ("5.5.0-dledger", "dledger-data", "entry", "consumequeue"),
        ("5.5.0-compaction", "batchconsumequeue", "unit", "commitlog"),
    ],
)
def test_other_files_lead_on(name: str, kind: str, row: str, target: str, real_dir: Directory) -> None:
    shelf = _shelf(real_dir(name))
    found = []
    for file_row in shelf.rows:
        if file_row.target.kind != kind:
            continue
        file = shelf.open(file_row)
        with StoreView(shelf.store) as view:
            for item in file.pages.forward(0, 20):
                if item.kind == row:
                    found += [link for link in links_of(shelf, view, file, item) if link.place is not None]
        file.close()
    assert found
    for link in found:
        assert link.place is not None
        led = shelf.row(link.place.name)
        assert led is not None
        assert led.target.kind in (target, kind, "index")
        file = shelf.open(led)
        assert file.pages.locate(link.place.pos) == link.place.pos
        file.close()


def test_the_chain_of_a_slot_is_walked_in_its_own_order(store_dir: Directory) -> None:
    shelf = _shelf(store_dir("5.3.3-trans"))
    index = _first(shelf, "index")
    links = chain_links(index, 1)
    assert [link.title.split(":")[0] for link in links] == ["slot 1", "entry 66", "entry 8", "the chain ends"]
    places = [link.place for link in links if link.place is not None]
    for place in places:
        assert index.pages.locate(place.pos) == place.pos
    index.close()


def test_a_missing_unit_says_so(restart_dir: Directory) -> None:
    shelf = _shelf(restart_dir("4.9.8-basic--cq-deleted"))
    log = _first(shelf, "commitlog")
    titles = [link.title for link in _links(shelf, FilePlace(log.row.key, 0))]
    assert any("has no such queue" in title or "has no unit" in title for title in titles)
    log.close()


def test_searches_find_records_by_all_that_names_them(store_dir: Directory) -> None:
    shelf = _shelf(store_dir("4.9.8-basic"))
    log = _first(shelf, "commitlog")
    item = next(item for item in log.pages.forward(0, 200)[5:] if item.values.get("keys"))
    here = FilePlace(log.row.key, item.start)
    topic = item.values["topic"].decode()
    key, unique = item.values["keys"][0], item.values["unique_key"]
    assert here in _find(shelf, "key", key, topic)
    assert here in _find(shelf, "key", key)
    assert _find(shelf, "unique", unique) == [here]
    assert _find(shelf, "unique", key, topic) == []
    assert _find(shelf, "offset", str(item.values["physical_offset"])) == [here]
    assert _find(shelf, "offset", hex(item.values["physical_offset"])) == [here]
    queue, offset = item.values["queue_id"], item.values["queue_offset"]
    (unit,) = _find(shelf, "offset", f"{topic}/{queue}/{offset}")
    assert here in [link.place for link in _links(shelf, unit)]
    assert _find(shelf, "offset", "@17", file=log) == [FilePlace(log.row.key, 17)]
    (timed,) = _find(shelf, "time", str(item.values["store_timestamp"]))
    assert timed.pos <= here.pos
    (text,) = _find(shelf, "text", unique)
    assert item.start < text.pos < item.end
    assert _find(shelf, "text", "0x" + unique.encode().hex()) == [text]
    log.close()


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("text", "0xabc", "pairs of hex digits"),
        ("text", "", "nothing to search for"),
        ("offset", "here", "neither an offset"),
        ("offset", "99999999999", "no file of the commit log"),
        ("offset", "@5", "no byte 5"),
        ("offset", "NoTopic/0/1", "no topic NoTopic"),
        ("time", "yesterday", "neither milliseconds nor a date"),
    ],
)
def test_a_question_without_sense_is_refused(
    kind: SearchKind, text: str, said: str, store_dir: Directory
) -> None:
    with pytest.raises(UsageError, match=said):
        _find(_shelf(store_dir("4.9.8-basic")), kind, text)


def test_a_dledger_log_is_not_searched_by_time(real_dir: Directory) -> None:
    shelf = _shelf(real_dir("5.5.0-dledger"))
    with pytest.raises(UsageError, match="open a consume queue"):
        _find(shelf, "time", "1795334683969")
    queue = _first(shelf, "consumequeue")
    assert _find(shelf, "time", "0", file=queue) == [FilePlace(queue.row.key, 0)]


def test_work_stops_at_the_next_read(store_dir: Directory) -> None:
    shelf = _shelf(store_dir("4.9.8-basic"))
    log = _first(shelf, "commitlog")
    stop = threading.Event()
    stop.set()
    with stoppable(stop):
        for work in (
            lambda: log.pages.forward(0, 10),
            lambda: log.pages.backward(log.source.size, 10),
            lambda: _find(shelf, "text", "nowhere"),
            lambda: _find(shelf, "key", "nowhere"),
        ):
            with pytest.raises(CancelledError):
                work()
    assert log.pages.forward(0, 10)
    log.close()


def test_findings_are_in_their_places(restart_dir: Directory) -> None:
    shelf = _shelf(restart_dir("4.9.8-multiseg--flip-older-file"))
    findings = _checked(shelf)
    (error,) = [item for item in findings.all if item.severity == Severity.ERROR]
    assert error.finding.rule == "CL004"
    assert error.place == FilePlace("commitlog/00000000000000393216", 65601)
    assert error in findings.at(error.name, 65700, 65701)
    assert error not in findings.at(error.name, 0, 65601)
    assert error not in findings.at(error.name, error.end, error.end + 1)
    assert findings.worst(error.name, 65601, 65602) == Severity.ERROR
    assert findings.counts(error.name).counts[Severity.ERROR] == 1
    assert findings.next(error.name, 10_000) == error
    before = findings.next(error.name, error.start, backward=True)
    assert before is not None
    assert before.start < error.start
    row = shelf.row(error.name)
    assert row is not None
    file = shelf.open(row)
    (item,) = file.pages.forward(file.pages.locate(error.start), 1)
    fields = Fields(file, item, findings.at(error.name, item.start, item.end))
    assert fields.lines(0, 1)[0].startswith("E CL004 ")
    assert fields.line_of(item.start) == len(fields.head)
    assert [*fields.lines(0, 5), *fields.lines(5, fields.count)] == fields.lines(0, fields.count)
    file.close()


def test_every_finding_about_bytes_has_a_row(restart_dir: Directory) -> None:
    for name in ("4.9.8-killed--index-truncated", "5.3.3-trans--cq-dangling", "4.9.8-basic--torn-tail"):
        shelf = _shelf(restart_dir(name))
        placed = [item for item in _checked(shelf).all if item.name and item.end > item.start]
        assert placed
        for item in placed:
            row = shelf.row(item.name)
            assert row is not None
            file = shelf.open(row)
            if item.start < row.size:
                (shown,) = file.pages.forward(file.pages.locate(item.start), 1)
                assert shown.start <= item.start < shown.end
            file.close()


def test_a_check_runs_beside_and_can_be_stopped(restart_dir: Directory) -> None:
    shelf = _shelf(restart_dir("4.9.8-basic--torn-tail"))
    heard: list[CheckProgress] = []
    findings = run_check(shelf, "cross", threading.Event(), heard.append)
    assert {item.finding.rule for item in findings.all} == {item.finding.rule for item in _checked(shelf).all}
    assert heard
    stop = threading.Event()
    stop.set()
    with pytest.raises(CancelledError):
        run_check(shelf, "full", stop, heard.append)


def test_a_check_that_fails_says_why(store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("4.4.0-basic"), tmp_path / "store")
    shelf = _shelf(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(StoreError, match="the check ended with status"):
        run_check(shelf, "quick", threading.Event(), lambda _: None)


def test_repairs_are_chosen_and_saved(restart_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(restart_dir("5.3.3-trans--cq-dangling"), root)
    shelf = _shelf(root)
    report = check_store(shelf.store, engine=LocalEngine(1))
    saved = tmp_path / "report.json"
    saved.write_text(to_json(report.to_json()))
    findings = load_findings(shelf, saved)
    planned = plan_all(PlanScene(shelf.store, findings.report, findings.report.findings))
    choices = planned.choices()
    assert choices
    assert all(choice.title.isprintable() for choice in choices)
    nothing = plan_without(planned, frozenset().union(*(choice.keys for choice in choices)))
    assert not nothing.plan.actions
    assert [choice.name for choice in nothing.choices()] == [choice.name for choice in choices]
    assert any("findings left" in line or "finding left" in line for line in nothing.lines(80))
    target = tmp_path / "plan.json"
    assert save_plan(planned, target) == target
    assert read_plan(target) == planned.plan
    with pytest.raises(UsageError, match="inside the store"):
        save_plan(planned, root / "plan.json")
    assert not (root / "plan.json").exists()


def test_a_plan_is_kept_where_apply_finds_it(
    restart_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_STATE_DIR", str(tmp_path / "state"))
    shelf = _shelf(restart_dir("5.3.3-trans--cq-dangling"))
    report = check_store(shelf.store, engine=LocalEngine(1))
    planned = plan_all(PlanScene(shelf.store, report, report.findings))
    assert read_plan(save_plan(planned, None)) == planned.plan


def test_a_huge_body_is_as_quick_as_a_byte(store_dir: Directory) -> None:
    shelf = _shelf(store_dir("4.4.0-basic"))
    log = _first(shelf, "commitlog")
    fields = Fields(log, Item("zero", 0, 1 << 40))
    assert fields.count == (1 << 40) // 8
    assert fields.lines(3, 4)[0].startswith("000000000018 ") or fields.lines(3, 4)[0].startswith(
        "00000000018"
    )
    log.close()


def test_rows_of_a_database_are_numbered(real_dir: Directory) -> None:
    pytest.importorskip("rocksdict")
    shelf = _shelf(real_dir("5.5.0-rocksdb-cq"))
    row = next(row for row in shelf.rows if row.target.kind == "rocksdb-units")
    file = shelf.open(row)
    first = file.pages.forward(0, 5)
    assert [(item.start, item.end) for item in first] == [(n, n + 1) for n in range(len(first))]
    assert file.pages.backward(3, 2) == file.pages.forward(1, 2)
    assert file.pages.locate(2) == 2
    fields = Fields(file, first[0])
    assert any(line.startswith("family = ") for line in fields.lines(0, fields.count))
    with StoreView(shelf.store) as view:
        (link,) = links_of(shelf, view, file, first[3])
    offset = first[3].values["physical_offset"]
    assert link.place == shelf.at("commitlog", offset)
    assert link.title == f"record at physical offset {offset}"
    file.close()
