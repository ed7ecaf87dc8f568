"""What docs/style.md forbids, for tests of texts that users read."""

from __future__ import annotations

import re

_NOUNS = (
    "action|byte|chain|circle|consumer|copy|entry|epoch|field|file|finding|group|hash|key|level|link|message|"
    "offset|place|position|queue|record|row|segment|slot|topic|unit|version"
)
_PLURALS = "|".join(
    f"{noun[:-1]}ies" if noun in ("copy", "entry") else f"{noun}{'es' if noun == 'hash' else 's'}"
    for noun in _NOUNS.split("|")
)
_WORDS = r"(?:(?!(?:of|with|has|in|on|for|and|to|at|from|by|fit|that|is|are)\b)[a-zA-Z-]+ ){0,2}?"

_FORBIDDEN = {
    "one of many": rf"(?<![\d,.-])1 {_WORDS}(?:{_PLURALS})\b",
    "many of one": rf"(?<![\d,.])(?:[2-9]|\d[\d,]+) (?:{_NOUNS})\b",
    "a range of one": r"\b(\d+) to \1\b",
    "a verb for many": rf"(?<![\d,.-])1 (?:{_NOUNS}) (?:are|were|have|point|lie|hold|follow|remain)\b",
    "a verb for one": rf"\b\d[\d,]* (?:{_PLURALS}) (?:is|was|has|points|lies|holds|follows|remains)\b",
    "a number without separators": rf"\b\d{{4,}} (?:{_PLURALS})\b",
    "nobody named": r"(?:^|[.;:] )(?:It|They|Them|Its|Their)\b",
    "nothing named": r"(?:^|[.;:] )(?:This|These|That|Those) "
    r"(?:is|are|was|were|has|have|had|can|may|will|does|do|must|one|ones|says?)\b",
    "words of yesterday": r"\b(?:stands? (?!for\b)|stood\b|told\b|speaks? of|(?:is|are|be) of\b|"
    r"(?:has|have) cost|(?:is|are|be) had\b|(?<![Tt]here )(?:is|are) none\b|for ever\b|without a word|anew\b|"
    r"in good order|behind (?:it|them|its|that|the (?:end|last|first|cut|head|header|place|file|unit))\b|"
    r"whatever stands|thereof|whereof|upon\b|nowhere|no more than|beside\b|be it\b|goes on\b|"
    r"comes to an end|at work\b|(?:takes?|taken) for\b(?! granted)|in the place of|"
    r"no (?:record|file|number|queue|store|time) any more)",
    "no where not is meant": r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|more\b)",
    "a double negation": r"\b(?:not|never) (?:un[a-z]+ed|without)\b|\bno(?:t|thing)? but\b|"
    r"\b(?:nobody|nothing|none|never)\b[^,.;:()]*\bnot\b",
}


def faults_of(text: str) -> list[str]:
    """What a line does that texts must not do."""
    return [
        f"{name}: {found.group()!r}"
        for name, pattern in _FORBIDDEN.items()
        for found in re.finditer(pattern, text)
    ]


_UNNAMED = re.compile(
    r"(?:it|they|them|its|their|it's|they're)\b|"
    r"(?:this|these|that|those) (?:is|are|was|were|has|have|had|can|may|will|does|do|must)\b",
    re.IGNORECASE,
)


def fragment_faults(text: str) -> list[str]:
    """The same for a part of a sentence, which does not open with somebody unnamed either."""
    faults = faults_of(text)
    if unnamed := _UNNAMED.match(text.lstrip(" :;,")):
        faults.append(f"nobody named: {unnamed.group()!r}")
    return faults


def sentence_faults(text: str) -> list[str]:
    """The same for sentences, which have a capital, a full stop and one blank between them."""
    faults = faults_of(text)
    if not re.match(r"[A-Z`]", text):
        faults.append("no capital")
    if not text.endswith("."):
        faults.append("no full stop")
    if re.search(r"\s\s|^\s|\s$", text):
        faults.append("blanks")
    # what begins with a small letter after a full stop is an abbreviation or a name
    faults += [f"no capital: {found!r}" for found in re.findall(r"[a-z)]\. ([a-z]\w*)", text)]
    return faults


COINED = re.compile(
    r"\b(?:units?|stale|provably|preen|gives? out|answers|ghosts?|torn|dangling|carve[sd]?|phantoms?|astray|"
    r"reissued?|shifted|fenc(?:e|es|ed|ing)|dialects?|geometry|evidence|outlook|tall(?:y|ies)|strands?|crowds?|"
    r"orphans?|boundar(?:y|ies)|tilings?|resync\w*|lacks 0|level full|queue_kind\b)\b"
)
"""Words of this project that an operator of RocketMQ could not know: no first screen has one."""
