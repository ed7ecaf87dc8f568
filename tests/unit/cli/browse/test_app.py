"""The browser by its keys: from the files to a record, its unit, its index entries, and back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.browse.model.files import Question, Shelf
from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.base import BrowseRequest, Offer, Session
from rocketfsck.cli.browse.views.filescreen import MOST, Rows
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.engine import LocalEngine
from rocketfsck.repair.plan.document import read_plan
from rocketfsck.store import open_store
from rocketfsck.verify import check_store

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive, drive_app
from tests.unit.cli.browse.stores import record_bytes


def test_a_record_leads_to_its_unit_and_back(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        assert "commitlog/00000000000000000000" in at.cursor
        await at.press("enter")
        assert at.lines[0].startswith(" commitlog/00000000000000000000: commit log file, 65536 bytes")
        assert "magic_code = 0xdaa320a7" in at.text
        await at.press("down", "down")
        assert at.cursor.split()[1] == "606"
        await at.press("enter")
        assert "consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0" in at.lines[0]
        assert "physical_offset = 606" in at.text
        await at.press("enter")
        assert at.lines[0].startswith(" commitlog/")
        assert at.cursor.split()[1] == "606"
        await at.press("backspace")
        assert at.lines[0].startswith(" consumequeue/")
        await at.press("backspace")
        assert at.cursor.split()[1] == "606"
        await at.press("backspace")
        assert "9 files" in at.lines[0]

    drive(store_dir("5.3.3-trans"), script)


def test_a_record_leads_to_its_index_entries_and_their_chain(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("g")
        await at.type("1057")
        await at.press("enter")
        assert "This row leads to" in at.text
        assert "unit " in at.text
        assert "index entry 8 in slot 1 for key" in at.text
        links = at.app.screen.query_one("#links", Lines)
        while "index entry 8" not in links.text_of(links.cursor):
            await at.press("down")
        await at.press("enter")
        assert at.lines[0].startswith(" index/")
        assert "physical_offset = 1057" in at.text
        await at.press("enter", "down", "enter")
        assert "chain of slot 1" in at.text
        assert "entry 66: physical offset 10860" in at.text
        assert "the chain ends: prevIndex of entry 8 is 0" in at.text

    drive(store_dir("5.3.3-trans"), script)


def test_begins_where_the_command_line_says(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        assert at.cursor.split()[1] == "1057"
        assert "record, bytes 1057 to" in at.text

    drive(store_dir("5.3.3-trans"), script, asked=BrowseRequest(question=Question("offset", "1057")))


def test_goes_through_a_file_from_end_to_end(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("enter", "end")
        last = at.cursor
        assert "-- " in last or "zero" in last
        await at.press("home")
        assert at.cursor.split()[1] == "0"
        seen = ""
        while seen != at.cursor:
            seen = at.cursor
            await at.press("pagedown")
        assert at.cursor == last

    drive(store_dir("4.9.8-basic"), script)


def test_findings_and_a_plan(restart_dir: Directory, tmp_path: Path) -> None:
    async def script(at: Driver) -> None:
        await at.press("f")
        assert "Nothing is checked yet" in at.text
        await at.press("c")
        assert "Checked: 13 findings" in at.text
        assert "1E 1i" in at.text
        await at.press("f")
        assert at.cursor.startswith("> E   CL004 record-body-crc (1): body of the record at 458817")
        assert "record-body-crc: The body or the CRC field changed" in at.text
        await at.press("enter")
        assert at.cursor.startswith("> E  65601") or "E     65601" in at.cursor.replace(">", "")
        assert "1 finding" in at.text
        assert "\nE CL004" in at.text
        await at.press("left_square_bracket")
        assert "6150" in at.cursor
        await at.press("right_square_bracket")
        assert "65601" in at.cursor
        await at.press("p")
        assert "[x] flip-bit" in at.text
        assert "1. flip-bit commitlog/00000000000000393216" in at.text
        await at.press("space")
        assert "[ ] flip-bit" in at.text
        assert "What is left" in at.text
        await at.press("w")
        assert "The plan has no actions." in at.text
        await at.press("space", "w")
        await at.type(str(tmp_path / "plan.json"))
        assert "Saved. Next: rocketfsck apply" in at.text
        await at.press("backspace")
        assert "65601" in at.cursor

    drive(restart_dir("4.9.8-multiseg--flip-older-file"), script)
    assert [action.name for action in read_plan(tmp_path / "plan.json").actions] == ["flip-bit"]


def test_the_verdict_is_on_top(restart_dir: Directory) -> None:
    root = restart_dir("4.9.8-multiseg--flip-older-file")

    async def script(at: Driver) -> None:
        assert at.lines[1] == " Nothing is checked yet: c checks the store."
        await at.press("f", "enter", "f")
        assert "Nothing is checked yet" in at.lines[-2]
        await at.press("c")
        assert "Nothing is checked yet" not in at.text
        await at.press("backspace")
        assert "Nothing is checked yet" not in at.text
        findings = at.app.session.findings
        assert findings is not None
        assert findings.verdict is not None
        assert f" {headline_of(findings.verdict)}"[:70] in at.text
        assert f"Next: {findings.verdict.next_command}"[:70] in at.text
        assert findings.next_step == f"rocketfsck fix {root}"
        await at.press("f")
        assert f" {headline_of(findings.verdict)}"[:70] in at.lines[0]

    drive(root, script, size=(160, 30))


def test_a_report_without_a_verdict_has_its_counts_on_top(restart_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(restart_dir("4.9.8-multiseg--flip-older-file"), tmp_path / "store")
    report = check_store(open_store(restart_dir("4.9.8-multiseg--flip-older-file")), engine=LocalEngine(1))
    shelf = Shelf(open_store(tmp_path / "store"))

    async def script(at: Driver) -> None:
        assert at.lines[1].startswith(" The report has no verdict. Found: 1 error, 12 notes.")
        assert "(A report on /" in at.text
        assert report.next_commands[0][:60] in at.text

    drive_app(BrowseApp(Session(shelf, "store", findings=Findings(shelf, report))), script, size=(200, 24))


def test_searches_go_on_and_back(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("enter", "slash")
        assert "[text]" in at.text
        await at.type("Tx")
        first = at.cursor
        assert '= "Tx"' in at.text  # the bytes that were found are on the screen
        await at.press("n")
        second = at.cursor
        assert first != second
        await at.press("N")
        assert at.cursor == first
        await at.press("slash", "tab")
        assert "[key]" in at.text
        await at.press("down")
        await at.pilot.press(*"Tx", "up")
        await at.settle()
        await at.type("nothing")
        assert "Not found." in at.text
        await at.press("slash", "escape", "g")
        await at.type("rubbish")
        assert "rubbish is neither an offset" in at.text

    drive(store_dir("5.3.3-trans"), script)


def test_bodies_are_shown_when_asked_for(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("enter")
        assert "hidden: b)" in at.text
        await at.press("b")
        assert "Bodies are shown." in at.text
        assert "hidden: b)" not in at.text

    drive(store_dir("5.3.3-trans"), script, size=(80, 60))


def test_the_mouse_does_what_keys_do(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.pilot.click("#files", offset=(20, 4), times=2)
        await at.settle()
        assert "consumequeue/" in at.lines[0]
        await at.pilot.click("#rows", offset=(20, 3))
        await at.settle()
        assert at.cursor.split()[1] == "60"

    drive(store_dir("5.3.3-trans"), script)


def test_what_was_said_of_a_row_goes_with_it(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("enter", "end", "enter")
        assert "This row leads to nothing else." in at.text
        await at.press("up")
        assert "leads to nothing" not in at.text
        await at.press("end", "enter", "g")
        await at.type("606")
        assert "leads to nothing" not in at.text

    drive(store_dir("5.3.3-trans"), script)


def test_one_of_several_stores_is_chosen(store_dir: Directory, tmp_path: Path) -> None:
    """Nothing of a store is opened before it is chosen; what was found in it is there when one comes back."""
    opened: list[str] = []

    def offer(name: str, root: Path) -> Offer:
        def open_it() -> Session:
            opened.append(name)
            return Session(Shelf(open_store(root)), name)

        return Offer(name, open_it)

    async def script(at: Driver) -> None:
        assert at.lines[0] == " 3 stores: Enter opens one"
        assert not opened
        await at.press("enter")
        assert at.lines[0].startswith(" broker-a: 9 files")
        await at.press("enter", "slash")
        await at.type("Tx")
        await at.press("backspace", "backspace", "backspace", "down", "enter")
        assert "gone: cannot be" in at.text
        assert at.lines[0] == " 3 stores: Enter opens one"
        await at.press("down", "enter")
        assert at.lines[0].startswith(" broker-c: ")
        await at.press("n")
        assert "Nothing was searched for yet" in at.text
        await at.press("backspace", "home", "enter", "n")
        assert at.lines[0].startswith(" commitlog/")
        assert opened == ["broker-a", "broker-b", "broker-c"]

    stores = {
        "broker-a": store_dir("5.3.3-trans"),
        "broker-b": tmp_path / "gone",
        "broker-c": store_dir("4.4.0-basic"),
    }
    drive_app(BrowseApp([offer(name, root) for name, root in stores.items()]), script, size=(160, 24))


def test_help_and_themes(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        await at.press("question_mark")
        assert "follow a row to what it points to" in at.text
        await at.press("escape")
        dark = at.app.theme
        await at.press("t")
        assert at.app.theme != dark
        await at.press("q")
        assert at.app.return_code == 0

    drive(store_dir("5.3.3-trans"), script)


@pytest.mark.parametrize("size", [(40, 12), (200, 60), (20, 5)])
def test_any_size_of_terminal(size: tuple[int, int], store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        for key in ("enter", "down", "enter", "escape", "slash", "escape", "question_mark", "escape", "end"):
            await at.press(key)
        assert len(at.lines) == size[1]

    drive(store_dir("5.3.3-trans"), script, size=size)


def test_no_colour_is_needed(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(at: Driver) -> None:
        await at.press("enter")
        assert at.cursor
        picture = at.app.export_screenshot()
        colors = {found.lower() for found in re.findall("#[0-9a-fA-F]{6}", picture.split("<defs>")[1])}
        colors -= {"#ff5f57", "#febc2e", "#28c840", "#c5c8c6"}  # the picture's own window
        assert len(colors) > 2
        grey = [color for color in colors if color[1:3] == color[3:5] == color[5:7]]
        assert len(grey) == len(colors)

    drive(store_dir("5.3.3-trans"), script)


def test_a_file_that_goes_away_is_said(store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("5.3.3-trans"), tmp_path / "store")

    async def script(at: Driver) -> None:
        (tmp_path / "store" / "commitlog" / f"{0:020}").unlink()
        await at.press("enter")
        assert "cannot be opened: No such file" in at.text.replace("\n", "")
        await at.press("backspace")
        assert "9 files" in at.lines[0]

    drive(tmp_path / "store", script)


def test_thousands_of_rows_are_a_window(tmp_path: Path) -> None:
    """Rows come and go as the cursor moves; those that are kept are bounded, and none is left out."""
    log = b"".join(record_bytes(101 * number, number) for number in range(1500))
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(log.ljust(1 << 19, b"\0"))

    async def script(at: Driver) -> None:
        await at.press("enter")
        rows = at.app.screen.query_one(Rows)
        seen = 0
        while seen < 1000:
            assert rows.item is not None
            assert rows.item.start == 101 * seen
            assert len(rows.items) <= MOST
            rows.move_to(rows.cursor + 100)
            await at.settle()
            assert rows.item is not None
            seen += 100
        assert rows.items[0].start > 0
        await at.press("end")
        assert "-- zero" in at.cursor
        await at.press("up")
        assert rows.item is not None
        assert rows.item.start == 101 * 1499
        for _ in range(8):
            rows.move_to(max(rows.cursor - 100, 0))
            await at.settle()
        assert rows.item.start == 101 * 699
        await at.press("home")
        assert rows.item.start == 0

    drive(tmp_path / "store", script)


def test_the_first_thing_may_be_a_key(store_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        assert "Match 1 of" in at.text
        first = at.cursor
        await at.press("n")
        assert at.cursor != first
        await at.press("N", "N")
        assert "No more matches." in at.text
        assert at.cursor == first

    drive(store_dir("5.3.3-trans"), script, asked=BrowseRequest(question=Question("key", "tx0")))
