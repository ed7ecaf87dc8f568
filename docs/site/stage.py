"""Lays out what the generator reads: the repository's pages at their paths, the files they link to, and the
configuration with the navigation.

A link to a file that is not a page (a specification for a program, an SQL file) takes the file along; a
link to a directory gets a list of its files. A link that leads nowhere stays: the strict build names it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.site.places import CONFIG, HOME, PAGES, ROOT, SITE, Section, repository_pages, sections

ASSETS = Path(__file__).parent / "assets"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^ *```.*?^ *```$|(?:^(?:    |\t)[^\n]*\n)+", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"^<!-- .*? -->\n", re.MULTILINE)


def stage(made: Mapping[str, str], *, root: Path = ROOT, pages: Path = PAGES) -> None:
    """Write all pages anew: those of the repository, and `made`, which are made of the code."""
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    _put_page(root, pages, "README.md", HOME)
    for path in repository_pages():
        _put_page(root, pages, path, path)
    for path, text in made.items():
        _write(pages / path, text)
    shutil.copytree(ASSETS, pages / "assets")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _put_page(root: Path, pages: Path, source: str, target: str) -> None:
    """Put one page there, with the files that it links to."""
    folder = Path(source).parent
    known = {*repository_pages(), "README.md"}

    def followed(match: re.Match[str]) -> str:
        place = os.path.normpath(folder / match[1])
        if place == "README.md":
            return os.path.relpath(HOME, folder) + (match[2] or "")
        if place not in known and not place.startswith(".."):
            if (root / place).is_dir():
                _list_folder(root, pages, place)
                return f"{match[1].rstrip('/')}/index.md"
            if (root / place).is_file():
                _copy(root, pages, place)
        return match[0]

    text = _COMMENT.sub("", (root / source).read_text("utf-8"))
    pieces, last = [], 0
    for fence in _FENCE.finditer(text):  # what looks like a link in code is none
        pieces += [_LINK.sub(followed, text[last : fence.start()]), fence[0]]
        last = fence.end()
    _write(pages / target, "".join([*pieces, _LINK.sub(followed, text[last:])]))


def _copy(root: Path, pages: Path, place: str) -> None:
    (pages / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / place, pages / place)


def _list_folder(root: Path, pages: Path, place: str) -> None:
    """Take a directory along, with a page that lists its files."""
    names = sorted(path.name for path in (root / place).iterdir() if path.is_file() and path.suffix != ".md")
    for name in names:
        _copy(root, pages, f"{place}/{name}")
    lines = [f"# Files in {place}/", "", *(f"- [{name}]({name})" for name in names)]
    _write(pages / place / "index.md", "\n".join(lines) + "\n")


def title_of(page: Path) -> str:
    """The first heading of a page. Raises ValueError where there is not one."""
    found = _TITLE.search(_FENCE.sub("", page.read_text("utf-8")))
    if found is None:
        raise ValueError(f"{page} has no heading")
    return found[1].replace("`", "")


def navigation(shown: tuple[Section, ...] | None = None, pages: Path = PAGES) -> list[object]:
    """The navigation as the configuration has it."""
    entries: list[object] = [{"rocketfsck": HOME}]
    for section in sections() if shown is None else shown:
        inner: list[object] = []
        for group, paths in section.groups.items():
            titles = [title_of(pages / path) for path in paths]
            if len(set(titles)) < len(titles):  # pages of one kind: their names tell them apart
                titles = [Path(path).stem for path in paths]
            listed: list[object] = [{title: path} for title, path in zip(titles, paths, strict=True)]
            inner += listed if not group else [{group: listed}]
        entries.append({section.title: inner})
    return entries


def _toml(value: object) -> str:
    """Texts, lists and tables as TOML, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


SETTINGS: Mapping[str, object] = {
    "site_name": "rocketfsck",
    "site_description": "Forensics and verification of Apache RocketMQ message stores",
    "copyright": "Apache-2.0",
    "theme": {
        "language": "en",
        "font": False,  # the reader's own fonts: nothing is loaded from elsewhere
        "features": [
            "navigation.indexes",
            "navigation.footer",
            "navigation.tabs",
            "navigation.top",
            "content.code.copy",
            "search.highlight",
        ],
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default"},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
        ],
    },
    "plugins": {"search": {}, "offline": {}},
    "extra_css": ["assets/site.css"],
    # what makes the search work in a page that was opened as a file: the generator's is on the network
    "extra": {"polyfills": ["assets/iframe-worker.js"]},
    "markdown_extensions": {
        "admonition": {},
        "attr_list": {},
        "tables": {},
        # headings have the anchors that code hosts give them
        "toc": {
            "permalink": True,
            "toc_depth": 3,
            "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
        },
        "pymdownx": {"highlight": {"pygments_lang_class": True}, "superfences": {}, "inlinehilite": {}},
    },
}


def write_config(path: Path = CONFIG, pages: Path = PAGES, site: Path = SITE) -> None:
    """Write the generator's configuration, next to what it reads and writes."""
    rows = {
        **SETTINGS,
        "docs_dir": os.path.relpath(pages, path.parent),
        "site_dir": os.path.relpath(site, path.parent),
        "nav": navigation(pages=pages),
    }
    lines = ["[project]", *(f"{key} = {_toml(value)}" for key, value in rows.items())]
    path.write_text("\n".join(lines) + "\n", "utf-8")
