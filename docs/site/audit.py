"""Looks through a built site: links, anchors and pictures lead somewhere, nothing comes from elsewhere.

The generator's strict build checks links between pages; here are also links to files, pictures, the anchors
of the pages as they became, and whatever a browser would load by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "link": "href",
}
"""What a browser loads by itself, and the attribute that says from where."""
_IN_STYLE = re.compile(r"(?:url\(|@import\s)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
_PASSIVE = frozenset({"canonical", "alternate", "next", "prev"})
"""Relations of a `link` that load nothing."""


class _Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        place = given.get(_LOADED.get(tag, ""), "")
        if place and not (tag == "link" and given.get("rel") in _PASSIVE):
            self.loaded.append(place)


def faults(site: Path) -> Iterator[str]:
    """Whatever is wrong in a site, a line each. A directory without a page is a fault, too."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no page"
    for path in sorted(site.rglob("*.css")):
        for place in _IN_STYLE.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: loads {place} from elsewhere"
    for path, page in pages.items():
        shown = path.relative_to(site)
        for place in page.loaded:
            split = urlsplit(place)
            if split.netloc or split.scheme not in ("", "data"):
                yield f"{shown}: loads {place} from elsewhere"
            elif split.scheme == "" and not _target(site, path, split.path).is_file():
                yield f"{shown}: loads {place}, which is not there"
        for link in page.links:
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = _target(site, path, split.path) if split.path else path
            if not target.is_file():
                yield f"{shown}: links to {link}, which is not there"
            elif target in pages and unquote(split.fragment) not in {"", *pages[target].anchors}:
                yield f"{shown}: links to {link}, an anchor that is not there"


def _target(site: Path, page: Path, place: str) -> Path:
    """The file that a path in a page means."""
    place = unquote(place)
    if place.startswith("/"):
        found = site / place.lstrip("/")
    else:
        found = (page.parent / place).resolve()
    return found / "index.html" if found.is_dir() else found
