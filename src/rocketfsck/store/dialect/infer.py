"""Which broker versions may have written a store, and which dialect to read it with. Reference 0.2 to 0.4.

No file names its version. The versions that fit are those whose traits agree with every clue
(`store.dialect.clues`), taken in the order of their weight; a clue that would leave no version is set aside
and said to conflict: several versions wrote the store, or it is damaged. Of those left, the newest release
stands for all. A version that the user names is used as it is.
"""

from __future__ import annotations

from rocketfsck.formats.dialect import ALL_VERSIONS, Version, dialect_of, nearest_examined, parse_version
from rocketfsck.store.circumstances import DialectEvidence, Evidence
from rocketfsck.store.dialect.clues import find_clues
from rocketfsck.store.dialect.sampling import Samples, Weight


def infer_dialect(found: Samples, version: str | None = None) -> DialectEvidence:
    """The dialect of a store and how it is known. UsageError if `version` names no broker version."""
    if version is not None:
        return _given(found, parse_version(version))
    left: tuple[Version, ...] = ALL_VERSIONS
    possible = left
    known_from = []
    conflict = False
    for clue in find_clues(found):
        fitting = tuple(candidate for candidate in left if clue.fits(dialect_of(candidate)))
        if fitting:
            left = fitting
            possible = left if clue.weight < Weight.CLIENT else possible
            known_from.append(Evidence(clue.what, clue.why))
        else:
            conflict = conflict or clue.weight <= Weight.PRESENT
            known_from.append(Evidence(clue.what, f"{clue.why}; ignored: this conflicts with the rest"))
    releases = [candidate for candidate in left if not candidate.stage]
    representative = max(releases or left)
    return DialectEvidence(
        dialect_of(representative),
        left,
        tuple(known_from),
        conflict=conflict,
        possible=ALL_VERSIONS if conflict else possible,
    )


def _given(found: Samples, version: Version) -> DialectEvidence:
    dialect = dialect_of(version)
    known_from = [Evidence(f"version {version}", _given_as(version))]
    conflict = False
    for clue in find_clues(found):
        fits = clue.fits(dialect)
        conflict = conflict or (clue.weight <= Weight.PRESENT and not fits)
        known_from.append(Evidence(clue.what, clue.why if fits else f"{clue.why}; conflicts with {version}"))
    return DialectEvidence(
        dialect, (version,), tuple(known_from), given=True, conflict=conflict, possible=(version,)
    )


def _given_as(version: Version) -> str:
    known = nearest_examined(version)
    if known == version:
        return "given by the user"
    return f"given by the user; rocketfsck does not know this version and reads the store as {known}"
