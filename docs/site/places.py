"""Where each page of the site comes from, and its place in the navigation: the whole order is in `sections`.

A page keeps the path that it has in the repository, so that links between pages are the same in both. What
is made of the code is in `reference/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES = BUILD / "pages"
"""What the generator reads."""
SITE = BUILD / "site"
"""What it writes."""
CONFIG = BUILD / "zensical.toml"
HOME = "index.md"
"""The page that README.md is in the site."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the navigation: its title, and its pages by group; the group "" is the section itself."""

    title: str
    groups: dict[str, tuple[str, ...]]

    def paths(self) -> Iterator[str]:
        for pages in self.groups.values():
            yield from pages


def _guide(*names: str) -> tuple[str, ...]:
    return tuple(f"docs/guide/{name}.md" for name in names)


def _below(folder: str, *, first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The pages of a directory by name, some of them first."""
    found = sorted(path.name for path in (ROOT / folder).glob("*.md"))
    return tuple(f"{folder}/{name}" for name in (*first, *(name for name in found if name not in first)))


REFERENCE = "reference"
"""The directory of the pages that are made of the code."""
MADE = ("commands", "faults", "documents", "python", "spark", "versions")


def sections() -> tuple[Section, ...]:
    """The navigation: English, then the same pages in Chinese."""
    english = _english()
    chinese = [path for section in english for path in _chinese(section.paths())]
    return (*english, Section("中文", {"": (f"{CHINESE}/README.md", *chinese)}))


def _english() -> tuple[Section, ...]:
    return (
        Section("Tutorial", {"": ("docs/tutorial.md",)}),
        Section(
            "How to",
            {
                "": ("docs/symptoms.md", *_guide("situations", "broker-does-not-start")),
                "Repair": _guide("repair", "rebuild", "salvage"),
                "Look": _guide(
                    "query", "browse", "report-page", "simulate", "lost-messages", "certify", "sql"
                ),
                "Copies": _guide("extract", "convert", "write", "export"),
                "Many stores": _guide("fleets", "since", "spark", "remote", "interchange"),
                "In programs": _guide("recipes", "testing"),
            },
        ),
        Section(
            "Reference",
            {
                "": (f"{REFERENCE}/commands.md", *_guide("cli", "settings", "words")),
                "What a check finds": (
                    "specs/rules.md",
                    "specs/repairs.md",
                    f"{REFERENCE}/faults.md",
                    f"{REFERENCE}/versions.md",
                ),
                "Interfaces": (
                    *_guide("python-api"),
                    *(f"{REFERENCE}/{name}.md" for name in ("python", "spark", "documents")),
                ),
                "The format": tuple(
                    page
                    for page in _below("specs", first=("README.md",))
                    if page not in ("specs/rules.md", "specs/repairs.md")
                ),
            },
        ),
        Section(
            "Explanation",
            {
                "": ("docs/trust.md", *_guide("limits-of-repair", "limits", "fleet-simulation")),
                "Contributing": (
                    "CONTRIBUTING.md",
                    "docs/style.md",
                    "docs/versioning.md",
                    "SECURITY.md",
                    "CHANGELOG.md",
                ),
                "Measurements": _below("benchmarks/results"),
                "Decisions": _below("docs/adr", first=("README.md",)),
            },
        ),
    )


CHINESE = "docs/zh"
"""The directory of the pages in Chinese: each is the page of that path in English."""


def _chinese(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of these pages that are in Chinese, too, by their paths in Chinese."""
    found = (path.replace("docs/", f"{CHINESE}/", 1) for path in paths if path.startswith("docs/"))
    return tuple(path for path in found if (ROOT / path).is_file())


def repository_pages() -> tuple[str, ...]:
    """The pages that are files of the repository, README.md apart."""
    return tuple(
        path for section in sections() for path in section.paths() if not path.startswith(f"{REFERENCE}/")
    )
