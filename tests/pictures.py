"""Pictures of what people see, made from stores in tests/data, never by hand: `make pictures` writes them.

    docs/pictures/NAME.svg                          pictures of the guide
    tests/unit/cli/browse/screens/NAME.svg          further screens, which tests compare

A picture is a row of a table: the store, the keys that are pressed, the size of the screen. Nothing in a
picture depends on the machine, the time or the place of the store. Screenshots of other programs get a
function here that yields (path, text), and a line in `all_pictures`.
"""

from __future__ import annotations

import asyncio
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from textual.widgets import Input

from rocketfsck.cli.browse.model.files import FilePlace, Shelf
from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.base import BrowseRequest, Session
from rocketfsck.engine import LocalEngine
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.report import Report

from tests.unit.cli.browse.pilot import Driver, no_idling
from tests.unit.cli.browse.stores import record_bytes, sparse_store

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
GUIDE = ROOT / "docs" / "pictures"
SCREENS = ROOT / "tests" / "unit" / "cli" / "browse" / "screens"
NOW = 1_800_000_000_000
_OUTSIDE = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_NUMBERED = re.compile(r"terminal-\d+")


@dataclass(frozen=True)
class Screen:
    """One picture of `rocketfsck browse`. `store` is a directory and name in tests/data, or a maker's name.

    `at` is the file that is open at first. `keys` are pressed one after the other; a text in quotes is typed,
    and submitted.
    """

    name: str
    store: str
    keys: tuple[str, ...] = ()
    at: str = ""
    size: tuple[int, int] = (80, 24)
    checked: bool = False
    guide: bool = False
    no_color: bool = False

    @property
    def path(self) -> Path:
        return (GUIDE if self.guide else SCREENS) / f"{self.name}.svg"


FLIPPED = "restart/4.9.8-multiseg--flip-older-file"
SEVERAL = "restart/4.9.8-ghosttail--as-is-second-restart"
CHOSEN = ("p", "down", "enter", "down", "space")
ENTRIES = ("g", "'1057'", "enter", "end", "enter", "enter", "down", "enter")
QUEUE_FILE = f"{0:020}"
SCREENS_OF_BROWSE = (
    Screen("browse-files", FLIPPED, checked=True, guide=True),
    Screen("browse-record", FLIPPED, ("f", "enter"), size=(100, 30), checked=True, guide=True),
    Screen("browse-chain", "stores/5.3.3-trans", ENTRIES, size=(100, 24), guide=True),
    Screen("browse-findings", FLIPPED, ("f",), checked=True, guide=True),
    Screen("browse-plan", SEVERAL, CHOSEN, size=(100, 30), checked=True, guide=True),
    Screen("torn-tail", "restart/4.9.8-basic--torn-tail", ("enter", "end", "up"), checked=True),
    Screen("index-truncated", "restart/4.9.8-killed--index-truncated", ("f", "enter"), checked=True),
    Screen("missing-queue", "restart/4.9.8-basic--cq-deleted", ("enter", "enter")),
    Screen("stray-file", "restart/4.4.0-basic--stray-first", checked=True),
    Screen("checkpoint-zeroed", "restart/4.4.0-basic--checkpoint-zeroed-abort", ("f",), checked=True),
    Screen("missing-file", "restart/4.4.0-multiseg--missing-middle-commitlog", ("f",), checked=True),
    Screen("stale-tail", "restart/4.9.8-ghosttail--as-is-second-restart", ("f",), checked=True),
    Screen("unit", "stores/4.9.8-cqext", at=f"consumequeue/Ext0/0/{QUEUE_FILE}"),
    Screen("batch-unit", "stores/5.0.0-innerbatch", ("g", "'Ib/0/3'")),
    Screen("timer-wheel", "real/5.5.0-timer", ("down",), at="timerwheel"),
    Screen("bodies-light-wide", "stores/5.3.3-trans", ("t", "enter", "down", "b"), size=(140, 40)),
    Screen("search", "stores/5.3.3-trans", ("enter", "slash", "tab")),
    Screen("help", "stores/5.3.3-trans", ("question_mark",)),
    Screen("no-colour", FLIPPED, ("f", "enter"), checked=True, no_color=True),
    Screen("hostile", "hostile", ("enter", "b")),
    Screen("sparse", "sparse", ("enter", "end")),
)


def _hostile(root: Path) -> None:
    """Names and keys that would be colours, orders or more lines, if anything took them for that."""
    log = b""
    for number, name in enumerate(
        (b"[red]x[/red]", b"\x1b[2J\x1b[31m", b"a\nb\r\x07", b"\xff\xfe\xe2\x80\xae")
    ):
        properties = b"KEYS\x01" + name + b"\x02"
        log += record_bytes(len(log), number, topic=name, body=name, properties=properties)
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(log.ljust(1 << 14, b"\0"))


MAKERS: dict[str, Callable[[Path], None]] = {
    "hostile": _hostile,
    "sparse": lambda root: sparse_store(root, 64),
}


def _store(name: str, place: Path) -> Path:
    """A store of tests/data, or one that is made, below `place`."""
    if name in MAKERS:
        MAKERS[name](place / "store")
        return place / "store"
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(place, filter="tar")
    return place / Path(name).name / "store"


def _verdict(store: Store, report: Report) -> Verdict:
    """The verdict that `check` gives, with a place for the store that is the same everywhere."""
    verdict = judge_store(store, report)
    command = verdict.next_command
    return replace(verdict, next_command=command and command.replace(str(store.root), "/data/store"))


def draw(screen: Screen) -> str:
    """The picture as SVG."""
    with TemporaryDirectory(prefix="rocketfsck-") as place:
        shelf = Shelf(open_store(_store(screen.store, Path(place))))
        findings = None
        if screen.checked:
            report = check_store(shelf.store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))
            findings = Findings(shelf, report, _verdict(shelf.store, report))
        before = os.environ.pop("NO_COLOR", None)
        if screen.no_color:
            os.environ["NO_COLOR"] = "1"
        try:
            app = BrowseApp(
                Session(shelf, "store", BrowseRequest(FilePlace(screen.at) if screen.at else None), findings)
            )
            with no_idling():
                return asyncio.run(_shot(app, screen))
        finally:
            os.environ.pop("NO_COLOR", None)
            if before is not None:
                os.environ["NO_COLOR"] = before


async def _shot(app: BrowseApp, screen: Screen) -> str:
    async with app.run_test(size=screen.size) as pilot:
        driver = Driver(app, pilot)
        await driver.settle()
        for key in screen.keys:
            await (driver.type(key[1:-1]) if key.startswith("'") else driver.press(key))
            for one in app.screen.query(Input).results(Input):
                one.cursor_blink = False
        await driver.settle()
        picture = app.export_screenshot(title="rocketfsck browse")
    # no fonts from elsewhere, no numbers that are new every time
    return _NUMBERED.sub("terminal", _OUTSIDE.sub("", picture)).rstrip() + "\n"


def all_pictures() -> Iterator[tuple[Path, str]]:
    """Every picture: where it is kept, and what it is now."""
    for screen in SCREENS_OF_BROWSE:
        yield screen.path, draw(screen)


def main() -> None:
    """Write all pictures; those that nothing draws any more go."""
    for directory in (GUIDE, SCREENS):
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("*.svg"):
            path.unlink()
    for path, text in all_pictures():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
