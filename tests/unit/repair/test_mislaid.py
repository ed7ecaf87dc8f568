"""Files of the commit log at other places, or something else under their names: said before any repair."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.repair.advice import MISSING_FIRST
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.salvage.salvage import find_records
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import check_store

from tests.conftest import Directory


def advice(root: Path) -> tuple[str, str | None]:
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    return verdict.advice, verdict.next_command


def logs(root: Path) -> list[Path]:
    """The files of the log that have something in them."""
    return [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes()[:8])]


@pytest.fixture
def root(store_copy: Directory) -> Path:
    return store_copy("5.3.3-multiseg")


@pytest.mark.parametrize("place", [".", "index", "config"])
def test_a_file_at_another_place_is_to_be_moved(root: Path, place: str) -> None:
    file = logs(root)[1]
    (root / place).mkdir(exist_ok=True)
    file.rename(root / place / file.name)
    text, command = advice(root)
    shown = file.name if place == "." else f"{place}/{file.name}"
    assert text.startswith(f"move {shown} to the directory of the commit log first")
    assert command == f"rocketfsck check {root}"


@pytest.mark.parametrize("place", ["commitlog/commitlog", "config/commitlog"])
def test_a_directory_at_another_place_is_to_be_moved(root: Path, place: str) -> None:
    aside = root.with_name("aside")
    (root / "commitlog").rename(aside)
    (root / "commitlog").mkdir()
    (root / place).parent.mkdir(exist_ok=True)
    aside.rename(root / place)
    assert advice(root)[0].startswith(f"move the files of {place}/ to the directory of the commit log first")


@pytest.mark.parametrize("name", ["disk1", "commitlog.bak"])
def test_a_directory_that_may_be_the_log_is_to_be_named(root: Path, name: str) -> None:
    """As of a log on two disks, of which one is not mounted."""
    (root / name).mkdir()
    for file in logs(root)[::2]:
        file.rename(root / name / file.name)
    shutil.rmtree(root / "commitlog")
    assert advice(root)[0].startswith(f"say with --commitlog-path where the commit log is (in {name}/?)")


@pytest.mark.parametrize("end", [".aa .ab", ".001 .002", ".part1 .part2", ".aa"])
def test_pieces_of_a_file_are_to_be_joined(root: Path, end: str) -> None:
    file = logs(root)[1]
    data = file.read_bytes()
    for number, name in enumerate(end.split()):
        file.with_name(f"{file.name}{name}").write_bytes(data[number * 40_000 :][:40_000])
    file.unlink()
    assert advice(root)[0].startswith("join commitlog/") is (end != ".aa")


def _without_a_byte(data: bytes) -> bytes:
    return data[:20_001] + data[20_002:] + b"\0"


def _padded(data: bytes) -> bytes:
    return data[:20_000] + bytes(96) + data[20_000:-96]


def _exchanged(data: bytes) -> bytes:
    return data[:8192] + data[12_288:16_384] + data[8192:12_288] + data[16_384:]


def _without_a_page(data: bytes) -> bytes:
    return data[4096:]


@pytest.mark.parametrize("change", [_without_a_byte, _padded, _exchanged, _without_a_page])
def test_records_at_wrong_places_are_to_be_salvaged(root: Path, change: Callable[[bytes], bytes]) -> None:
    file = logs(root)[1]
    file.write_bytes(change(file.read_bytes()))
    text, command = advice(root)
    assert text.startswith(f"salvage the store first: commitlog/{file.name} has ")
    assert command == f"rocketfsck salvage {root} --into DIRECTORY"
    account = check_store(open_store(root)).account
    assert account is not None
    taken = find_records([root], SalvageOptions()).counts["taken"]
    assert int(text.split(" has ")[1].split()[0]) == taken - account.fates.in_log_count


def test_a_page_twice_is_no_record_at_a_wrong_place(root: Path) -> None:
    file = logs(root)[1]
    data = file.read_bytes()
    file.write_bytes(data[:8192] + data[16_384:20_480] + data[12_288:])
    assert "salvage" not in advice(root)[0]


def test_a_copy_of_a_file_that_is_there_is_not_missed(root: Path) -> None:
    file = logs(root)[0]
    shutil.copy(file, root / file.name)
    assert "move" not in advice(root)[0]


def test_units_under_such_a_name_are_no_log_file(root: Path) -> None:
    file = logs(root)[1]
    queue = next((root / "consumequeue").rglob("0" * 20))
    shutil.copy(queue, root / file.name)
    file.unlink()
    assert "move" not in advice(root)[0]


def test_the_first_file_compressed_in_its_place(root: Path) -> None:
    file = logs(root)[0]
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert advice(root)[0].startswith(f"uncompress commitlog/{packed.name} in its place first")
    packed.unlink()  # files expire from the first on, but then queues and index do, too
    assert advice(root)[0] == MISSING_FIRST


def error_page(data: bytes) -> bytes:
    text = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>\n'
    return (text * (len(data) // len(text) + 1))[: len(data)]


def compressed(data: bytes) -> bytes:
    return gzip.compress(data).ljust(len(data), b"\0")


@pytest.mark.parametrize(("change", "text"), [
    (error_page, "put the right {name} back first, and check again: what has its name is a text"),
    (compressed, "uncompress {name} in its place first"),
    (lambda data: bytes(len(data)), ""),
])  # fmt: skip
def test_something_else_under_the_name_of_a_log_file(
    root: Path, change: Callable[[bytes], bytes], text: str
) -> None:
    file = logs(root)[1]
    file.write_bytes(change(file.read_bytes()))
    found = advice(root)[0]
    assert found.startswith(text.format(name=f"commitlog/{file.name}"))
    assert bool(text) == ("put the right" in found or "uncompress" in found)


def test_a_log_without_any_message_is_to_be_found(root: Path) -> None:
    for file in (root / "commitlog").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    text, command = advice(root)
    assert text.startswith("look for the commit log first, and check again: none of its messages")
    assert command == f"rocketfsck check {root}"
