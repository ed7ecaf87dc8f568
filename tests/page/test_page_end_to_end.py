"""From bytes on disk to the browser: pages that the command makes, with what an attacker may write there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rocketfsck.cli.app import run

from tests.conftest import Directory
from tests.page.conftest import Open
from tests.page.pictures import DOCUMENT, GUIDE, MOST_SIZE, NAMES, WIDTH, shots
from tests.pagesamples import damaged_copy
from tests.unit.cli.test_hostile import HOSTILE, _record

pytestmark = pytest.mark.browser

MARKUP = [
    b"<script>alert(1)</script>",
    b"</script><img src=x onerror=alert(1)>",
    b"<!--<script>",
    b"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae",
]


def _page_of(store: Path, target: Path) -> Path:
    assert run(["check", str(store), "--quiet", "--report", str(target)]) in (0, 4, 8, 12)
    return target


def test_topics_keys_and_bodies_are_never_markup(open_page: Open, tmp_path: Path) -> None:
    """A store whose topics, keys, bodies, files and groups are markup, and whose last record is torn."""
    store = tmp_path / "store"
    log = store / "commitlog" / "0".zfill(20)
    log.parent.mkdir(parents=True)
    data = b""
    for name in (*MARKUP, *HOSTILE):
        data += _record(name, len(data), b"KEYS\x01" + name + b"\x02", body=name)
    data += _record(MARKUP[0], len(data), b"KEYS\x01" + MARKUP[0] + b"\x02", body=MARKUP[1])[:-9]
    log.write_bytes(data.ljust(65536, b"\0"))
    queue = store / "consumequeue" / "<img src=x onerror=alert(3)>" / "0"
    queue.mkdir(parents=True)
    (queue / "0".zfill(20)).write_bytes(bytes(6000))
    config = store / "config"
    config.mkdir()
    group = "<svg onload=alert(4)>@<script>alert(5)</script>"
    (config / "consumerOffset.json").write_text(f'{{"offsetTable": {{"{group}": {{0: 7}}}}}}')
    opened = open_page(path=_page_of(store, tmp_path / "page.html"))
    page = opened.page
    opened.unfold()
    page.locator("#map-stage").focus()
    for _ in range(12):
        page.keyboard.press("n")
    expect(page.locator("#hex")).to_be_visible()
    opened.settle()
    markup = "main img, main script, main iframe, [onerror], [onload], svg[onload]"
    expect(page.locator(markup)).to_have_count(0)
    shown = page.locator("#queues").inner_text()
    assert "</script><img src=x onerror=alert(1)>" in shown
    assert "\\u2028\\u2029\\u202e" in shown
    assert all(letter.isprintable() or letter in "\n\t" for letter in page.locator("body").inner_text())
    opened.check()


def test_a_page_of_a_damaged_store(open_page: Open, store_dir: Directory, tmp_path: Path) -> None:
    """The command's page leads from each finding to its bytes, and back."""
    store = damaged_copy(store_dir("5.3.3-multiseg"), tmp_path / "store")
    opened = open_page(path=_page_of(store, tmp_path / "page.html"))
    page = opened.page
    page.locator("summary", has_text="CL001").click()
    page.locator("#findings details[open] a.place").first.click()
    expect(page.locator("#map-stage")).to_be_focused()
    expect(page.locator("#hex")).to_be_visible()
    opened.settle()
    start = int(page.locator("#map-where").inner_text().split("bytes ")[1].split(" to ")[0])
    raw = (store / page.locator("#hex p").inner_text().split(",")[0]).read_bytes()
    row = page.locator(".hex tbody tr").nth(1)
    position = int(row.locator("th").inner_text())
    assert abs(position - start) < 100_000
    shown = row.locator("td").inner_text().split()
    assert len(shown) == 16
    for at, pair in enumerate(shown):
        assert pair in ("··", f"{raw[position + at]:02x}")
    opened.check()


def test_pictures_of_the_guide(open_page: Open) -> None:
    """Each picture that the guide shows can be drawn, and is there."""
    opened = open_page(json.loads(DOCUMENT.read_text("utf-8")), width=WIDTH)
    guide = (GUIDE.parent / "guide" / "report-page.md").read_text("utf-8")
    drawn = dict(shots(opened.page))
    for name, data in drawn.items():
        assert data.startswith(b"\x89PNG")
        assert f"../pictures/{name}.png" in guide
        assert (GUIDE / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(set(drawn.values())) == 3
    assert {path.stem for path in GUIDE.glob("page-*.png")} == set(NAMES)
    for name in NAMES:
        data = (GUIDE / f"{name}.png").read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) < MOST_SIZE, name
        assert f"../pictures/{name}.png" in guide
    opened.check()


def test_a_page_of_a_sound_store(open_page: Open, store_dir: Directory, tmp_path: Path) -> None:
    store = Path(shutil.copytree(store_dir("4.9.8-basic"), tmp_path / "store"))
    opened = open_page(path=_page_of(store, tmp_path / "page.html"))
    expect(opened.page.locator("#verdict .mark")).to_contain_text("✓")
    expect(opened.page.locator("#plan, .what-if")).to_have_count(0)
    opened.check()
