"""Pages in Chinese: which English page each is of, and whether it still says the same.

A page of `docs/zh` has the blocks of its English page in their order: prose is translated, commands and code
stay. `docs/zh/translated.json` has a hash of each English block of prose that was translated: where one
differs, the translation is stale.

python -m docs.site translated          what is stale or missing; 1 where there is something
python -m docs.site translated PAGE     take docs/zh/PAGE as the translation of what PAGE says now
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docs.site.places import CHINESE, ROOT

FOLDER = ROOT / CHINESE
HASHES = FOLDER / "translated.json"
ENGLISH = {"README.md": ROOT / "README.md", "tutorial.md": ROOT / "docs" / "tutorial.md"}
"""English pages by the names of the Chinese ones, those of the guide apart."""
Kind = Literal["prose", "code", "comment"]
_CODE, _SENTENCE = re.compile(r"`[^`]*`"), re.compile(r"[a-z]{3} [a-z]{2}")
_FENCE = re.compile(r" *(```+)")
_ANCHOR = re.compile(r'^<a id="[^"]+"></a>\n\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list or table; a block of code; a comment."""

    kind: Kind
    text: str

    @property
    def hash(self) -> str:
        """What changes with the text, but not with its line breaks."""
        return hashlib.sha256(" ".join(self.text.split()).encode()).hexdigest()[:12]


def pages() -> dict[str, Path]:
    """All pages that are to be translated, by their path below `docs/zh`: the English ones."""
    guide = {f"guide/{path.name}": path for path in sorted((ROOT / "docs" / "guide").glob("*.md"))}
    return {**ENGLISH, **guide}


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page; anchors that keep the names of English headings are left out."""
    lines = iter(_ANCHOR.sub("", text).splitlines(keepends=True))
    held: list[str] = []
    for line in lines:
        fence = _FENCE.match(line)
        is_comment = line.lstrip().startswith("<!--")
        if (fence or is_comment or not line.strip()) and held:
            yield Block("prose", "".join(held))
            held.clear()
        if fence:
            end = re.compile(rf" *{fence[1]} *\n?")
            code = [line]
            for inner in lines:
                code.append(inner)
                if end.fullmatch(inner):
                    break
            yield Block("code", "".join(code))
        elif is_comment:
            comment = [line]
            while "-->" not in comment[-1]:
                comment.append(next(lines, "-->"))
            yield Block("comment", "".join(comment))
        elif line.strip():
            held.append(line)
    if held:
        yield Block("prose", "".join(held))


def _kept(block: Block) -> str:
    """What of a block of code or a comment is the same in both languages: commands, not what they print."""
    if block.kind == "comment" or not re.match(r" *```+console", block.text):
        return block.text.strip()
    lines = block.text.splitlines()
    return "\n".join(line for line in lines if line.startswith(("$ ", "> ")))


def known_hashes() -> dict[str, list[str]]:
    """The hashes of the English prose that was translated, by page."""
    found: dict[str, list[str]] = json.loads(HASHES.read_text("utf-8")) if HASHES.exists() else {}
    return found


def faults() -> Iterator[str]:
    """What is missing, stale or other than in English."""
    known = known_hashes()
    for name, path in pages().items():
        place = FOLDER / name
        if not place.exists():
            yield f"{name}: no translation"
            continue
        english = list(blocks(path.read_text("utf-8")))
        chinese = list(blocks(place.read_text("utf-8")))
        if [block.kind for block in english] != [block.kind for block in chinese]:
            yield f"{name}: other blocks than in English"
            continue
        yield from _page_faults(name, english, chinese, known.get(name, []))
    yield from (f"{name}: of no page" for name in known if name not in pages())


def _page_faults(name: str, english: list[Block], chinese: list[Block], known: list[str]) -> Iterator[str]:
    prose = [block for block in english if block.kind == "prose"]
    for number, block in enumerate(prose):
        if known[number : number + 1] != [block.hash]:
            yield f"{name}: stale from here on: {' '.join(block.text.split())[:70]}"
            return
    for one, other in zip(english, chinese, strict=True):
        if one.kind == "prose":
            is_text = not one.text.startswith("    ") and _SENTENCE.search(_CODE.sub("", one.text))
            if one.text == other.text and is_text:
                yield f"{name}: not translated: {one.text.strip()[:70]}"
        elif _kept(one) != _kept(other):
            yield f"{name}: other code than in English: {one.text.strip()[:70]!r}"


def accept(name: str) -> None:
    """Take the Chinese page as the translation of what the English one says now. KeyError for no page."""
    known = known_hashes()
    known[name] = [block.hash for block in blocks(pages()[name].read_text("utf-8")) if block.kind == "prose"]
    HASHES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
