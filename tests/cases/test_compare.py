"""Two replicas compared, and healed from each other: real stores, damaged differently."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine, Outcome
from rocketfsck.repair.compare import compare
from rocketfsck.repair.compare import records as compare_bytes
from rocketfsck.repair.compare.compare import compare_stores
from rocketfsck.repair.log import filler_records
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader

from tests.cases.test_salvage import assert_balanced, hashes, ledger_of, messages_of, problems, records_of
from tests.conftest import STORE_NAMES, Directory


def compared(a: Path, b: Path, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    code = run(["compare", str(a), str(b), "--format", "json", *more])
    text = capfd.readouterr().out
    return code, json.loads(text) if text else {}


def copies(source: Path, tmp_path: Path) -> tuple[Path, Path]:
    return (
        Path(shutil.copytree(source, tmp_path / "a")),
        Path(shutil.copytree(source, tmp_path / "b")),
    )


def put(store: Path, message: Message, at: int, data: bytes) -> None:
    """Write over bytes of a record, `at` bytes behind its start."""
    with Path(store / "commitlog" / Path(message.path).name).open("r+b") as stream:
        stream.seek(message.pos + at)
        stream.write(data)


def all_messages(store: Path) -> list[Message]:
    return [message for message, _ in messages_of(store / "commitlog")]


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_copy_is_the_same(
    name: str, store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = store_dir(name)
    before = hashes(source)
    code, said = compared(source, source, capfd)
    assert code == 0
    assert said["same"]
    assert said["unlike_byte_count"] == said["different_count"] == 0
    assert said["lacks"] == said["different"] == []
    assert said["common"] == [said["a"]["start_offset"], said["resume_offset"]]
    assert said["equal_byte_count"] == said["common"][1] - said["common"][0]
    assert hashes(source) == before
    assert not list(tmp_path.iterdir())


def test_what_stands_behind_a_blank_is_no_difference(
    store_copy: Directory, store_dir: Directory, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = store_copy("5.3.3-multiseg")
    path = min((copy / "commitlog").iterdir())
    with path.open("r+b") as stream:
        stream.seek(path.stat().st_size - 5)
        stream.write(b"other")
    code, said = compared(store_dir("5.3.3-multiseg"), copy, capfd)
    assert (code, said["same"], said["unlike_byte_count"]) == (0, True, 5)


def test_the_first_divergence_is_told(
    store_copy: Directory, store_dir: Directory, capfd: pytest.CaptureFixture[str]
) -> None:
    source, copy = store_dir("4.9.8-multiseg"), store_copy("4.9.8-multiseg")
    messages = all_messages(source)
    later, first = messages[900], messages[400]
    put(copy, later, 20, b"\1")  # queueOffset: no checksum knows
    put(copy, first, first.body_pos - first.pos + 3, b"changed!")
    code, said = compared(source, copy, capfd)
    assert (code, said["same"], said["different_count"]) == (4, False, 2)
    assert said["resume_offset"] == first.physical_offset
    one, two = said["different"]
    assert one["physical_offset"] == first.physical_offset
    assert (one["a"]["valid"], one["b"]["valid"]) == (True, False)
    assert (one["a"]["topic"], one["a"]["queue_offset"]) == (first.topic, first.queue_offset)
    body = first.body_pos - first.pos
    assert (body + 3 <= one["first_byte"]) and (one["end_byte"] <= body + 11)
    assert (two["first_byte"], two["end_byte"]) == (20, 21)
    assert two["a"]["valid"] and two["b"]["valid"]
    assert {lack["side"] for lack in said["lacks"]} == {"A", "B"}
    run(["compare", str(source), str(copy)])
    text = capfd.readouterr().out
    assert f"Records differ at 2 places, first at {first.physical_offset}:" in text
    assert "the checksum is wrong" in text
    assert "Result: the stores differ." in text


def test_a_shorter_copy_can_go_on_where_it_ends(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A slave that lags: it lacks the tail, and nothing else."""
    a, b = copies(store_dir("4.9.8-multiseg"), tmp_path)
    files = sorted((b / "commitlog").iterdir())
    cut = next(m for m in all_messages(b) if m.physical_offset > int(files[2].name) + 3000)
    for path in files[3:]:
        path.unlink()
    with files[2].open("r+b") as stream:
        stream.seek(cut.pos)
        stream.write(bytes(files[2].stat().st_size - cut.pos))
    code, said = compared(a, b, capfd)
    tail = [m for m in all_messages(a) if m.physical_offset >= cut.physical_offset]
    assert (code, said["resume_offset"]) == (4, cut.physical_offset)
    assert said["different_count"] == 0
    assert {lack["side"] for lack in said["lacks"]} == {"A"}
    assert sum(lack["record_count"] for lack in said["lacks"]) == len(tail)
    queue = next(lack for lack in said["lacks"])
    own = [m.queue_offset for m in tail if (m.topic, m.queue_id) == (queue["topic"], queue["queue_id"])]
    assert (queue["first_queue_offset"], queue["last_queue_offset"]) == (own[0], own[-1])
    assert compared(b, a, capfd)[1]["lacks"][0]["side"] == "B"


def test_ranges_that_do_not_meet(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A slave outside of the master's range (H1): nothing in common, nowhere to go on."""
    a, b = copies(store_dir("4.9.8-multiseg"), tmp_path)
    files = sorted(path.name for path in (a / "commitlog").iterdir())
    for name in files[2:]:
        (a / "commitlog" / name).unlink()
    for name in files[:2]:
        (b / "commitlog" / name).unlink()
    code, said = compared(a, b, capfd)
    assert (code, said["common"], said["resume_offset"]) == (4, None, None)
    assert {lack["side"] for lack in said["lacks"]} == {"A", "B"}
    run(["compare", str(a), str(b)])
    assert "neither can resume from the other" in capfd.readouterr().out


def test_a_log_without_records(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    path = min((b / "commitlog").iterdir())
    path.write_bytes(bytes(path.stat().st_size))
    code, said = compared(a, b, capfd)
    assert code == 4
    assert said["b"]["last_timestamp"] is None
    assert sum(lack["record_count"] for lack in said["lacks"]) == len(all_messages(a))
    shutil.rmtree(b / "commitlog")
    (b / "commitlog").mkdir()
    assert run(["compare", str(a), str(b)]) == 16


@pytest.mark.parametrize("name", ["4.9.8-multiseg", "5.3.3-propcrc", "4.4.0-trans", "5.0.0-innerbatch"])
def test_two_damaged_copies_heal_each_other(name: str, store_dir: Directory, tmp_path: Path) -> None:
    """Damaged in different places, together they are the log: the healed one equals the original."""
    source = store_dir(name)
    a, b = copies(source, tmp_path)
    draw = random.Random(3)
    messages = all_messages(source)
    for number, message in enumerate(messages):
        if draw.random() < 0.3:
            data = draw.randbytes(draw.randrange(1, message.total_size))
            at = draw.randrange(message.total_size - len(data) + 1)
            if number % 2 or message.body_size == 0:
                put(a, message, 0, b"\0\0\0\0\0\0\0\0")  # the frame
            elif message.body_size:
                start = message.body_pos - message.pos
                put(b, message, start, bytes(255 - byte for byte in (message.body or b"")[:1]))
            del at
    into = tmp_path / "healed"
    before = hashes(a) | hashes(b)
    assert run(["compare", str(a), str(b), "--heal", "--into", str(into)]) == 0
    assert hashes(a) | hashes(b) == before
    assert records_of(into) == records_of(source)
    assert problems(into) == {}
    ledger = ledger_of(into)
    assert_balanced(ledger, into)
    origins = {Path(row["path"]).parts[-3] for row in ledger if row.get("fate") == "taken"}
    assert origins == {"a", "b"}
    for path in sorted((source / "commitlog").iterdir()):
        if name != "4.4.0-trans":  # whose BLANK is followed by stale bytes, which nobody needs
            assert (into / "commitlog" / path.name).exists() or not any(path.read_bytes())


def diverged(source: Path, tmp_path: Path) -> tuple[Path, Path, list[Message]]:
    """Two copies that both hold valid records in one place, but different ones."""
    a, b = copies(source, tmp_path)
    messages = all_messages(source)
    lost = messages[500:510]
    low, high = lost[0], lost[-1]
    fence = b"".join(
        filler_records(
            low.physical_offset,
            high.physical_offset + high.total_size - low.physical_offset,
            version="4.9.8",
            store_timestamp=low.store_timestamp,
            record_size_limit=700,
        )
    ).replace(b"rocketfsck_fence", b"another_topic_16")
    put(b, low, 0, fence)
    return a, b, lost


def test_two_valid_histories_are_not_mixed(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = store_dir("4.9.8-multiseg")
    a, b, lost = diverged(source, tmp_path)
    into = tmp_path / "healed"
    assert run(["compare", str(a), str(b), "--heal", "--into", str(into)]) == 16
    error = capfd.readouterr().err
    assert f"first at {lost[0].physical_offset}" in error
    assert "--prefer" in error
    assert not into.exists()
    assert run(["compare", str(a), str(b), "--heal", "--into", str(into), "--prefer", "A"]) == 1
    assert records_of(into) == records_of(source)
    assert problems(into) == {}


def test_from_a_divergence_on_one_side_is_believed(store_dir: Directory, tmp_path: Path) -> None:
    """What the other side has behind it does not fill holes of the preferred one."""
    source = store_dir("4.9.8-multiseg")
    a, b, lost = diverged(source, tmp_path)
    messages = all_messages(source)
    before, behind = messages[100], messages[900]
    put(b, before, 4, b"gone")
    put(b, behind, 4, b"gone")
    into = tmp_path / "healed"
    assert run(["compare", str(a), str(b), "--heal", "--into", str(into), "--prefer", "B"]) in (1, 4)
    healed = records_of(into)
    own = records_of(b)
    assert before.physical_offset in healed
    assert behind.physical_offset not in healed
    assert {offset: data for offset, data in healed.items() if offset >= lost[0].physical_offset} == {
        offset: data for offset, data in own.items() if offset >= lost[0].physical_offset
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["{a}", "{b}", "--into", "{tmp}/new"],
        ["{a}", "{b}", "--prefer", "A"],
        ["{a}", "{b}", "--dry-run"],
        ["{a}", "{b}", "--heal", "-o", "{a}/plan.json"],
        ["{a}", "{b}", "--heal", "--into", "{a}/new"],
        ["{a}/commitlog", "{b}", "--heal", "--into", "{tmp}/new"],
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], store_dir: Directory, tmp_path: Path) -> None:
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    before = hashes(tmp_path)
    assert run(["compare", *(text.format(a=a, b=b, tmp=tmp_path) for text in arguments)]) == 16
    assert hashes(tmp_path) == before


def test_healing_can_be_tried(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    before = hashes(tmp_path)
    assert run(["compare", str(a), str(b), "--heal", "--dry-run"]) == 0
    assert "Nothing was written" in capfd.readouterr().out
    code, said = compared(a, b, capfd, "--heal", "--dry-run")
    assert code == 0
    assert said["records"] == {"taken": len(all_messages(a)), "copy": len(all_messages(a))}
    assert hashes(tmp_path) == before


def test_sizes_of_files_need_not_agree(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two halves of one file, as one replica was cut by hand: the bytes count, not the files."""
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    path = min((b / "commitlog").iterdir())
    data = path.read_bytes()
    with FileReader(path) as reader:
        half = next(m for m in read_messages(reader, 0, ScanOptions()) if m.pos > 10_000).pos
    path.write_bytes(data[:half])
    (path.parent / f"{half:020d}").write_bytes(data[half:])
    code, said = compared(a, b, capfd)
    assert (code, said["same"]) == (0, True)


class Reversed:
    """An engine that runs every task for itself, the last first, with nothing shared but pickles."""

    job_count = 2

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert deadline is None
        for index in reversed(range(len(tasks))):
            own, task = pickle.loads(pickle.dumps((kernel, tasks[index])))
            yield Outcome(index, tasks[index], pickle.loads(pickle.dumps(own(task))), 0.0)


def spoiled(source: Path, tmp_path: Path, seed: int) -> tuple[Path, Path]:
    """Two copies with damage of every kind on both sides."""
    draw = random.Random(seed)
    stores = copies(source, tmp_path)
    for store in stores:
        for number, path in enumerate(sorted((store / "commitlog").iterdir())):
            if number and draw.random() < 0.15:
                path.unlink()
                continue
            size = path.stat().st_size
            with path.open("r+b") as stream:
                for _ in range(draw.randrange(4)):
                    at = draw.randrange(size)
                    stream.seek(at)
                    stream.write(draw.randbytes(min(draw.randrange(1, 400), size - at)))
                if draw.random() < 0.2:
                    stream.truncate(draw.randrange(size))
    return stores


@pytest.mark.parametrize("name", ["4.9.8-multiseg", "5.3.3-multiseg", "5.0.0-innerbatch"])
@pytest.mark.parametrize("seed", range(3))
def test_any_engine_says_the_same(
    name: str, seed: int, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the work is cut and in whatever order it is done."""
    a, b = map(open_store, spoiled(store_dir(name), tmp_path, seed))
    whole = compare_stores(a, b, engine=LocalEngine(1))
    assert whole.lacks or name == "5.0.0-innerbatch"
    monkeypatch.setattr(compare_bytes, "CHUNK_SIZE", compare_bytes.BLOCK_SIZE)
    monkeypatch.setattr(compare, "WAVE_COUNT", 2)
    for engine in (LocalEngine(3), LocalEngine(16), Reversed()):
        assert compare_stores(a, b, engine=engine) == whole


def test_only_the_first_differences_are_told_one_by_one(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(open_store, spoiled(store_dir("4.9.8-multiseg"), tmp_path, 5))
    every = compare_stores(a, b)
    assert every.different_count == len(every.different) > 7
    monkeypatch.setattr(compare, "DIFFERENT_LIMIT", 7)
    monkeypatch.setattr(compare, "WAVE_COUNT", 1)
    few = compare_stores(a, b)
    assert few == replace(every, different=every.different[:7])


def test_a_comparison_needs_no_spark_to_be_refused(store_dir: Directory, tmp_path: Path) -> None:
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    healed = ["--heal", "--into", str(tmp_path / "new")]
    assert run(["compare", str(a), str(b), "--engine", "spark", *healed]) == 16
    assert run(["compare", str(a), str(b), "--master", "local[1]"]) == 16
    assert not (tmp_path / "new").exists()
