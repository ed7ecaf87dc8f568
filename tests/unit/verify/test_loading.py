"""What a start does with the entries of a segment directory, by version."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.formats.dialect import dialect_for, dialect_of, parse_version
from rocketfsck.store.circumstances import DialectEvidence
from rocketfsck.store.model import MappedFile, MappedFileQueue, Stray, StrayReason
from rocketfsck.verify.store.segments import LoadEffect, by_version, load_effects

SIZE = 4096


def queue(*sizes: int) -> MappedFileQueue:
    files = tuple(
        MappedFile(f"/s/commitlog/{n:020d}", f"commitlog/{n:020d}", size, 0, 0, n * SIZE)
        for n, size in enumerate(sizes)
    )
    return MappedFileQueue(("/s/commitlog",), SIZE, files)


def stray(name: str, size: int = 0, reason: StrayReason = StrayReason.NAME) -> Stray:
    return Stray(Path("/s/commitlog") / name, f"commitlog/{name}", reason, "commitlog", size)


@pytest.mark.parametrize(
    ("version", "effects"),
    [
        ("4.4.0", [LoadEffect.LOADED, LoadEffect.HIDES, LoadEffect.LOADED]),
        ("4.9.2", [LoadEffect.LOADED, LoadEffect.HIDES, LoadEffect.LOADED]),
        ("4.9.8", [LoadEffect.LOADED, LoadEffect.REFUSES, LoadEffect.LOADED]),
        ("5.5.1", [LoadEffect.LOADED, LoadEffect.REFUSES, LoadEffect.LOADED]),
    ],
)
def test_a_wrong_length(version: str, effects: list[LoadEffect]) -> None:
    entries = load_effects(queue(SIZE, 5, SIZE), (), dialect_for(version))
    assert [entry.effect for entry in entries] == effects
    assert entries[1].hidden_count == (1 if effects[1] is LoadEffect.HIDES else 0)


@pytest.mark.parametrize(
    ("version", "effect"), [("5.1.2", LoadEffect.REFUSES), ("5.1.3", LoadEffect.DELETED)]
)
def test_an_empty_file_at_the_end(version: str, effect: LoadEffect) -> None:
    assert load_effects(queue(SIZE, 0), (), dialect_for(version))[-1].effect is effect


def test_an_empty_file_before_a_directory_is_still_the_last_file() -> None:
    behind = stray("zzz", reason=StrayReason.DIRECTORY)
    first, empty, directory = load_effects(queue(SIZE, 0), [behind], dialect_for("5.1.3"))
    assert (first.effect, empty.effect, directory.effect) == (
        LoadEffect.LOADED,
        LoadEffect.DELETED,
        LoadEffect.SKIPPED,
    )


def test_a_stray_empty_file_at_the_end_is_deleted_too() -> None:
    entries = load_effects(queue(SIZE), [stray("the-bad-empty")], dialect_for("5.1.3"))
    assert entries[-1].effect is LoadEffect.DELETED


def test_strays_at_the_right_length() -> None:
    strays = [stray("+8192", SIZE), stray("x", SIZE)]
    effects = {entry.name: entry.effect for entry in load_effects(queue(SIZE), strays, dialect_for("5.3.3"))}
    assert effects == {"+8192": LoadEffect.LOADED, "x": LoadEffect.REFUSES, f"{0:020d}": LoadEffect.LOADED}


def test_effects_by_version_put_the_dialect_first_and_name_spans() -> None:
    versions = tuple(map(parse_version, ("4.4.0", "4.5.1", "4.5.2", "4.9.1", "4.9.2", "4.9.3")))
    evidence = DialectEvidence(dialect_for("4.9.3"), versions, ())
    text = by_version(evidence, lambda dialect: "stops" if dialect.wrong_size_fatal else "hides")
    assert text == "stops (4.5.1 to 4.5.2, 4.9.1, 4.9.3), or hides (4.4.0, 4.9.2)"


def test_effects_of_a_version_that_is_not_among_the_possible_ones() -> None:
    evidence = DialectEvidence(dialect_for("5.3.3"), (parse_version("4.4.0"),), ())
    assert by_version(evidence, lambda dialect: str(dialect.version)) == "5.3.3 (5.3.3), or 4.4.0 (4.4.0)"
    unknown = dialect_of(parse_version("5.9.0"))
    assert by_version(DialectEvidence(unknown, (), ()), lambda _: "stops") == "stops (5.9.0)"
