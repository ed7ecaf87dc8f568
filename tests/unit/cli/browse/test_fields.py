"""The fields of a row: wrong ones are marked, each has a colour, long ones continue in the next line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.cli.browse.model.cells import Fields, broken, wrong_fields
from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.model.findings import Findings, Placed
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.base import Session
from rocketfsck.cli.dump.item import Item, Span
from rocketfsck.cli.show.text import width
from rocketfsck.engine import LocalEngine
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Facts, Finding, Severity, Where

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive, drive_app
from tests.unit.cli.browse.stores import record_bytes

SPANS = [Span("physical_offset", 0, 8), Span("size", 8, 12), Span("queue_offset", 12, 20)]
ITEM = Item("unit", 0, 20)


def _placed(where: Where, facts: Facts, severity: Severity = Severity.ERROR) -> Placed:
    start = where.start or 0
    return Placed(Finding("CL004", where, facts), "file", start, where.end or start + 1, severity)


@pytest.mark.parametrize(
    ("where", "facts", "wrong"),
    [
        (Where("file", 8, 12), {}, {1}),
        (Where("file", 7, 9), {}, {0, 1}),
        (Where("file", 0, 20), {}, set()),
        (Where("file", 0, 100), {"size": 4}, set()),
        (Where("file", 0, 20), {"stated_physical_offset": 4}, {0}),
        (Where("file", 0, 20), {"field": "queueOffset"}, {2}),
        (Where("file", 3), {}, set()),
        (Where("file", 3), {"field": "size"}, {1}),
        (Where("file", 16, 40), {}, set()),
    ],
)
def test_a_finding_names_fields(where: Where, facts: Facts, wrong: set[int]) -> None:
    found = wrong_fields(ITEM, SPANS, [_placed(where, facts), _placed(where, facts, Severity.INFO)])
    assert found == dict.fromkeys(wrong, Severity.ERROR)


def test_the_wrong_field_is_marked(restart_dir: Directory) -> None:
    shelf = Shelf(open_store(restart_dir("4.9.8-multiseg--flip-older-file")))
    findings = Findings(shelf, check_store(shelf.store, engine=LocalEngine(1)))

    async def script(at: Driver) -> None:
        await at.press("f", "enter")
        (wrong,) = [line for line in at.lines if "| E " in line]
        assert wrong.endswith("|..ak    | E body_crc = 329212267")
        assert "| size = 356" in at.text
        strips = at.app.screen._compositor.render_strips()
        styles = {}
        for strip in strips:
            for segment in strip:
                for name in ("size = 356", "magic_code =", "E body_crc"):
                    if name in segment.text:
                        styles[name] = segment.style
        colors = {name: style.color for name, style in styles.items() if style is not None}
        assert len(colors) == 3
        assert len({str(color) for color in colors.values()}) == 3
        await at.pilot.resize_terminal(60, 24)
        await at.settle()
        assert "| E body_crc" in at.text
        await at.press("home", "up")
        assert at.app.is_running

    drive_app(BrowseApp(Session(shelf, "store", findings=findings)), script, size=(100, 30))


def test_long_values_go_on_in_the_next_line(tmp_path: Path) -> None:
    key = "k" * 300 + "消息" * 40 + "END"
    log = record_bytes(0, 0, properties=f"KEYS\x01{key}\x02".encode(), body=b"body" * 10)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(log.ljust(1 << 14, b"\0"))
    shelf = Shelf(open_store(tmp_path / "store"))
    file = shelf.open(shelf.rows[0])
    (item,) = file.pages.forward(0, 1)
    for columns in (40, 80, 120):
        fields = Fields(file, item, columns=columns)
        lines = fields.lines(0, fields.count)
        assert len(lines) == fields.count
        assert max(map(width, lines)) <= max(columns, 61)
        assert lines == [line for n in range(fields.count) for line in fields.lines(n, n + 1)]
        assert key in "".join(line[45:] for line in lines).replace(" ", "")
        numbers = [fields.field_of(number) for number in range(fields.count)]
        assert set(numbers) == set(range(len(fields.spans)))
        assert numbers == sorted(numbers, key=lambda number: number or 0)
    file.close()

    async def script(at: Driver) -> None:
        await at.press("enter", "tab", "end")
        assert "END" in at.text

    drive(tmp_path / "store", script)


def test_broken_at_the_width() -> None:
    assert broken("abcdef", None) == ["abcdef"]
    assert broken("abcdef", 6) == ["abcdef"]
    assert broken("abcdef", 4, "  ") == ["abcd", "  ef"]
    assert broken("消息消", 4) == ["消息", "消"]
    assert broken("", 4) == [""]
    assert broken("消", 1) == ["消"]


def test_a_finding_is_said_in_full(restart_dir: Directory) -> None:
    shelf = Shelf(open_store(restart_dir("4.9.8-multiseg--flip-older-file")))
    findings = Findings(shelf, check_store(shelf.store, engine=LocalEngine(1)))

    async def script(at: Driver) -> None:
        await at.press("f", "enter")
        assert "computed 1258514460)" in at.text.replace("\n  ", "").replace("\n", "")

    drive_app(BrowseApp(Session(shelf, "store", findings=findings)), script)


def test_wide_rows_move_to_the_side_with_their_titles(tmp_path: Path) -> None:
    """No cell is cut: Right shows the rest, and stops where the longest row ends."""
    key = "order-" + "0123456789" * 8 + "-END"
    data = record_bytes(0, 0, properties=f"KEYS\x01{key}\x02".encode(), body=b"body")
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(data.ljust(1 << 14, b"\0"))

    async def script(at: Driver) -> None:
        await at.press("enter")
        titles, row = at.lines[1], at.cursor
        assert "byte" in titles and "-END" not in row
        seen = titles.partition("keys")[0]
        for _ in range(40):
            await at.press("right")
            if "-END" in at.cursor:
                break
        assert "-END" in at.cursor and "…" not in at.cursor
        assert at.lines[1] != titles, "the titles move with the cells"
        while "keys" not in at.lines[1]:
            await at.press("left")
        begin = at.lines[1].index("keys")
        assert at.cursor[begin:].startswith("order-0123")
        assert len(seen) > begin
        for _ in range(100):
            await at.press("right")
        end = at.cursor
        assert len(end) > 2, "the longest row is still there"
        await at.press("right")
        assert at.cursor == end
        for _ in range(100):
            await at.press("left")
        assert (at.lines[1], at.cursor) == (titles, row)

    drive(tmp_path / "store", script)
