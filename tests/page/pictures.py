"""Pictures of the report page for the guide: `make pictures` writes them, from pages of stores in tests/data.

    docs/pictures/page-verdict.png      the verdict of a damaged store
    docs/pictures/page-map.png          the map, from the store down to a finding
    docs/pictures/page-bytes.png        the bytes of the finding with the names of their fields
    docs/pictures/page-NAME.png         the first screen after each of `damages.DAMAGES`, and without
    docs/pictures/page-phone.png        the first screen of a damaged store on a phone
    docs/pictures/page-fleet.png        three nodes of a group, in the third run of a check

No test compares them: letters look different on each machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from rocketfsck.cli.pages.reading import groups_said
from rocketfsck.commands.check import CheckCommand, check_fleet
from rocketfsck.common.documents import to_document
from rocketfsck.page.fleet import fleet_page
from rocketfsck.page.html import render

from tests.page.conftest import arguments_of, path_of_chromium
from tests.page.damages import DAMAGES, STORE
from tests.pagesamples import checked_page

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs" / "pictures"
DATA = ROOT / "tests" / "data"
DOCUMENT = DATA / "page" / "damaged.json"
WIDTH = 960
HEIGHT = 620
PHONE = (390, 844)
MOST_SIZE = 120_000
"""Bytes of a picture."""

_SHOTS = (
    ("page-verdict", "", ()),
    ("page-map", "#map-stage", ()),
    ("page-bytes", "#map-stage", ("n", "n", "n", "b")),
)
"""A picture, the part of the page that it shows (none: the top), the keys pressed on the map before."""

NAMES = (
    *(name for name, _, _ in _SHOTS),
    *(f"page-{name}" for name in ("healthy", *DAMAGES, "phone", "fleet")),
)


def shots(page: Page) -> Iterator[tuple[str, bytes]]:
    """The names and the PNG of all pictures of a page that is open."""
    for name, part, keys in _SHOTS:
        page.locator("#map-stage").focus()
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(300)
        page.evaluate("document.activeElement.blur()")
        if part:
            yield name, page.locator(part).screenshot()
        else:
            page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
            yield name, page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})


def damaged_pages(work: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents of a healthy store, and of copies with each damage, made below a directory."""
    source = unpacked(DATA / "stores" / f"{STORE}.tar.xz", work) / "store"
    config = source / "config"
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_text(_TOPICS, "utf-8")
    yield "page-healthy", document_of(source)
    for name, damage in DAMAGES.items():
        root = work / name / "store"
        shutil.copytree(source, root)
        damage(root)
        yield f"page-{name}", document_of(root)


_TOPICS = json.dumps(
    {
        "topicConfigTable": {
            f"Seg{number}": {
                "topicName": f"Seg{number}",
                "readQueueNums": 2,
                "writeQueueNums": 2,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": False,
            }
            for number in range(3)
        }
    }
)


def unpacked(archive: Path, work: Path) -> Path:
    """What is in an archive of tests/data."""
    with tarfile.open(archive) as opened:
        opened.extractall(work, filter="tar")
    return work / archive.name.removesuffix(".tar.xz")


def document_of(root: Path) -> dict[str, Any]:
    """The page of a store, as if it were that of a broker in /data."""
    return _placed(to_document(checked_page(root)), os.path.realpath(root.parent), "/data/rocketmq")


def _placed(document: dict[str, Any], place: str, other: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(document).replace(place, other))
    return found


def fleet_document(work: Path) -> dict[str, Any]:
    """Three nodes of DLedger, one of which parted; a disk damages another one between two of three runs."""
    group = unpacked(DATA / "groups" / "5.5.0-dledger-three.tar.xz", work)
    stores = tuple(group / name for name in ("n0-alone", "n1-later", "n2"))
    asked = CheckCommand(stores, tables=work / "tables")
    with chdir(work):
        answers = [check_fleet(asked, keeps_findings=True)]
        log = next(path for path in sorted(stores[2].rglob("data/*")) if path.is_file())
        with log.open("r+b") as file:
            file.seek(9000)
            file.write(bytes(range(200)))
        answers += [check_fleet(asked, keeps_findings=True) for _ in range(2)]
    report = answers[-1].report
    rows = [row.as_row() for row in report.stores]
    page = fleet_page(rows, report.finding_rows(), groups_said(report.node_groups), answers[-1].earlier)
    return _placed(to_document(page), os.path.realpath(group), "/data")


def pictures(browser: Browser, work: Path) -> Iterator[tuple[str, bytes]]:
    """All pictures: their names and PNG."""
    page = _opened(browser, json.loads(DOCUMENT.read_text("utf-8")), work, (WIDTH, 900))
    yield from shots(page)
    page.close()
    for name, document in damaged_pages(work):
        yield name, _top(browser, document, work, (WIDTH, HEIGHT))
        if name == "page-bit-rot":
            yield "page-phone", _top(browser, document, work, PHONE)
    page = _opened(browser, fleet_document(work), work, (WIDTH, 1400))
    box = page.locator("#replicas .replica-chart").last.bounding_box()
    assert box
    top = page.locator("#stores").bounding_box()
    assert top
    height = box["y"] + box["height"] + 8 - top["y"]
    yield (
        "page-fleet",
        page.screenshot(clip={"x": 0, "y": top["y"], "width": WIDTH, "height": height}, full_page=True),
    )
    page.close()


def _top(browser: Browser, document: dict[str, Any], work: Path, size: tuple[int, int]) -> bytes:
    page = _opened(browser, document, work, size)
    found = page.screenshot()
    page.close()
    return found


def _opened(browser: Browser, document: dict[str, Any], work: Path, size: tuple[int, int]) -> Page:
    file = work / "page.html"
    file.write_text(render(document), "utf-8")
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="light")
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(300)
    return page


def main() -> None:
    """Writes the pictures; says so where no Chromium is installed."""
    path = path_of_chromium()
    if path is None:
        print("no Chromium is installed: the pictures of the report page stay as they are", file=sys.stderr)
        return
    with TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments_of())
        for name, data in pictures(browser, Path(directory)):
            (GUIDE / f"{name}.png").write_bytes(data)
        browser.close()


if __name__ == "__main__":
    main()
