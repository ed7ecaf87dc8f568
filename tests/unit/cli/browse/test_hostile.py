"""Whatever a store says is an answer: names and bytes that deceive, named damages, lengths without end."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rocketfsck.cli.browse.model.cells import Fields, Table
from rocketfsck.cli.browse.model.files import OpenFile, Shelf
from rocketfsck.cli.browse.model.links import chain_links, links_of
from rocketfsck.cli.browse.model.tree import all_keys, file_tree, line_text, tree_lines
from rocketfsck.query.view import StoreView
from rocketfsck.store import open_store
from rocketfsck.writer.damage import DAMAGES, DamageError, damage_store

from tests.conftest import NIGHTLY, RELEASED, Directory
from tests.unit.cli.browse.pilot import Driver, drive
from tests.unit.cli.browse.stores import record_bytes
from tests.unit.cli.browse.test_pages import compare_pages

STORES = ("5.3.3-multiseg", "4.9.8-cqext", "5.0.0-innerbatch", "4.9.8-delay", "5.3.3-propcrc", "5.3.3-trans",
    "4.9.8-basic", "4.4.0-basic", "5.1.3-expired", "5.1.3-killed-restarted", "4.9.8-lmq")  # fmt: skip
HOSTILE = (
    b"[red]topic[/red]",
    b"\x1b[2J\x1b[31mred",
    b"[/]\\[bold",
    b"two\nlines\r",
    b"\xe2\x80\xaetxt",
    b"\xff\x00",
)


def look_at_all(shelf: Shelf, file: OpenFile, limit: int = 60) -> None:
    """Every part of the screen for some rows of a file: each an answer, printable and of one line."""
    items = file.pages.forward(0, limit)
    if items:
        items += file.pages.backward(items[-1].end, limit)
    table = Table(file, items, None)
    with StoreView(shelf.store) as view:
        for item in random.Random(1).sample(items, min(len(items), 25)):
            fields = Fields(file, item)
            shown = fields.lines(0, min(fields.count, 200)) + fields.lines(
                max(fields.count - 3, 0), fields.count
            )
            links = links_of(shelf, view, file, item)
            for link in list(links):
                if link.slot is not None:
                    links += chain_links(file, link.slot)
                if link.place is not None:
                    row = shelf.row(link.place.name)
                    assert row is not None
                    assert 0 <= link.place.pos <= row.size
            for line in (*table.lines, *shown, *(link.title for link in links)):
                assert line.isprintable(), line


@pytest.mark.parametrize("name", DAMAGES if NIGHTLY else [*DAMAGES][::8])
def test_every_named_damage_can_be_looked_at(name: str, any_dir: Directory, tmp_path: Path) -> None:
    target = tmp_path / "store"
    for store in RELEASED.get(DAMAGES[name].needs, STORES):
        try:
            report = damage_store(any_dir(store), target, [name], 3)
        except DamageError:
            continue
        break
    else:
        pytest.skip("no store here has what this damage needs")
    shelf = Shelf(open_store(target, commitlog_paths=[target / path for path in report.commitlog_paths]))
    changed = {change.file for act in report.acts for change in act.changes}
    tree = file_tree(shelf.rows)
    assert all(line_text(line, None, 78).isprintable() for line in tree_lines(tree, all_keys(tree)))
    for row in shelf.rows:
        if row.target.name in changed and row.target.database is None:
            file = shelf.open(row)
            # from behind, the records after a BLANK that is too early are there, as they are in the bytes
            compare_pages(file, entered=name != "blank-early")
            look_at_all(shelf, file)
            file.close()


@pytest.mark.parametrize("topic", HOSTILE)
def test_names_are_no_markup_and_no_orders(topic: bytes, tmp_path: Path) -> None:
    log, pos = b"", 0
    for number in range(4):
        log += record_bytes(pos, number, topic=topic, properties=b"KEYS\x01" + topic + b"\x02", body=topic)
        pos = len(log)
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(log.ljust(1 << 16, b"\0"))
    if b"\0" not in topic and b"/" not in topic:
        queue = root / "consumequeue" / os.fsdecode(topic) / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020}").write_bytes(bytes(200))
    shown: list[str] = []

    async def script(at: Driver) -> None:
        shown.append(at.text)
        await at.press("enter", "b", "right")
        shown.append(at.text)
        await at.press("enter")
        shown.append(at.text)
        await at.press("escape", "slash")
        await at.type("[red]")
        shown.append(at.text)

    drive(root, script, size=(120, 30))
    assert all(line.isprintable() for text in shown for line in text.split("\n"))
    if topic.startswith(b"[red]"):
        assert "[red]topic[/red]" in shown[1]
        assert '"[red]topic[/red]"' in shown[2] or "[red]topic[/red]" in shown[2]


def test_lengths_without_end(tmp_path: Path) -> None:
    """A totalSize, body and properties of 2 GiB, negative ones, and a chain that is a circle."""
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    data = bytearray(1 << 16)
    pos = 0
    for number in range(40):
        piece = record_bytes(pos, number)
        data[pos : pos + len(piece)] = piece
        pos += len(piece)
    chance = random.Random(5)
    for _ in range(30):
        at = chance.randrange(pos)
        data[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"))
    (root / "commitlog" / f"{0:020}").write_bytes(data)
    shelf = Shelf(open_store(root))
    file = shelf.open(shelf.rows[0])
    compare_pages(file, 3)
    look_at_all(shelf, file)
    file.close()
