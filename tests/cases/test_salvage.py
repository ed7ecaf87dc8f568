"""Salvage of real stores, whole and damaged, and of raw bytes: every record, and a clean store."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.formats.magic import FENCE_TOPIC
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, Severity, check_store, describe
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import NIGHTLY, RESTART_NAMES, STORE_NAMES, Directory, released

GHOSTS = "ghosttail"
"""A store that its broker cut: it holds records of an earlier life of the log."""
WHOLE = [name for name in STORE_NAMES if GHOSTS not in name]
PACKED = (
    WHOLE
    if NIGHTLY
    else [
        "4.4.0-multiseg", "4.9.8-delay", "4.9.8-ipv6", "5.0.0-innerbatch", "5.1.3-expired", "5.3.3-killed",
        "5.3.3-multiseg", "5.3.3-propcrc", "5.3.3-trans",
    ]
)  # fmt: skip
"""One store of each kind of record, and of each way in which a log may begin and end."""
LOSS = "CL028"
WRONG = Fault.BODY_CRC | Fault.PROPERTY_CRC

Records = dict[int, bytes]


def messages_of(commitlog: Path) -> list[tuple[Message, bytes]]:
    """Every sound record of a log in its order, with its bytes; fences left out."""
    found = []
    for path in sorted(commitlog.iterdir()):
        if not path.name.isdigit() or not path.is_file():
            continue
        with FileReader(path) as reader:
            found += [
                (message, reader.read(message.pos, message.total_size))
                for message in read_messages(reader, int(path.name), ScanOptions())
                if not message.faults & WRONG and message.topic_bytes != FENCE_TOPIC
            ]
    return found


def records_of(store: Path) -> Records:
    """The bytes of every sound record by physical offset."""
    return {message.physical_offset: data for message, data in messages_of(store / "commitlog")}


def problems(store: Path) -> dict[str, list[str]]:
    report = check_store(open_store(store), CheckOptions(level="full", jobs=1))
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        if RULES[finding.rule].severity > Severity.INFO:
            found.setdefault(finding.rule, []).append(describe(finding))
    return found


def hashes(root: Path) -> dict[str, str]:
    """What every file below holds."""
    files = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def ledger_of(into: Path) -> list[dict[str, Any]]:
    text = into.with_name(f"{into.name}.ledger.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def assert_balanced(ledger: Iterable[dict[str, Any]], into: Path) -> None:
    """Every byte of every source is in the ledger, and what was taken stands where it says."""
    rows = list(ledger)
    sizes = {row["path"]: row["size"] for row in rows if row["kind"].endswith(".source")}
    covered: dict[str, list[tuple[int, int]]] = {path: [] for path in sizes}
    for row in rows:
        if row["kind"].endswith((".records", ".nothing")):
            covered[row["path"]].append((row["start"], row["end"]))
        if row.get("fate") == "taken":
            source = Path(row["path"]).read_bytes()[row["start"] : row["end"]]
            target = (into / row["target"]["file"]).read_bytes()[row["target"]["pos"] :][: len(source)]
            if row["target"]["offset"] == row["physical_offset"]:
                assert source == target
            else:
                assert len(source) == len(target)
    for path, ranges in covered.items():
        reached = 0
        for start, end in sorted(ranges):
            assert start <= reached, (path, start, reached)
            reached = max(reached, end)
        assert reached == sizes[path]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_log_is_salvaged_whole(name: str, store_dir: Directory, tmp_path: Path) -> None:
    source, into = store_dir(name), tmp_path / "new"
    before = hashes(source)
    assert run(["salvage", str(source), "--into", str(into)]) == 0
    assert hashes(source) == before
    assert records_of(into) == records_of(source)
    assert problems(into) == {}
    ledger = ledger_of(into)
    assert_balanced(ledger, into)
    assert ledger[0]["fence_byte_count"] == ledger[0]["missing_count"] == 0
    assert {row["fate"] for row in ledger if row["kind"].endswith(".records")} == {"taken"}


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_what_is_sound_in_a_damaged_store_is_salvaged(
    name: str, restart_dir: Directory, tmp_path: Path
) -> None:
    source, into = restart_dir(name), tmp_path / "new"
    sound = records_of(source)
    code = run(["salvage", str(source), "--into", str(into), "--layout", "keep"])
    # a group that had consumed the torn record is beyond the new end of its queue
    assert code in (0, 1) or problems(into).keys() == {"CF010"}
    found = records_of(into)
    assert found.items() <= sound.items()
    assert len(found) == len(sound) - (GHOSTS in name)
    assert set(problems(into)) <= {LOSS, "CF010"}
    assert_balanced(ledger_of(into), into)


@pytest.mark.parametrize("name", PACKED)
def test_packed_records_keep_all_but_their_place(name: str, store_dir: Directory, tmp_path: Path) -> None:
    source, into = store_dir(name), tmp_path / "new"
    assert run(["salvage", str(source), "--into", str(into), "--layout", "pack"]) == 0
    old, new = messages_of(source / "commitlog"), messages_of(into / "commitlog")
    moved = {a.physical_offset: b.physical_offset for (a, _), (b, _) in zip(old, new, strict=True)}
    for (_, data), (message, packed) in zip(old, new, strict=True):
        expected = bytearray(data)
        expected[28:36] = message.physical_offset.to_bytes(8, "big")
        half = message.pos and int.from_bytes(data[76:84], "big")
        if half and half in moved:
            expected[76:84] = moved[half].to_bytes(8, "big")
        if b"__CRC32#\x01" in data[-PROPERTY_CRC_SIZE:]:
            expected[-PROPERTY_CRC_SIZE:] = property_crc_trailer(property_crc(bytes(expected)))
        assert packed == expected
    assert problems(into) == {}
    assert_balanced(ledger_of(into), into)


def odd_image(store: Path, path: Path) -> Records:
    """Write a file with the store's records out of order, at odd places, among other bytes."""
    draw = random.Random(7)
    records = records_of(store)
    order = list(records.items())
    draw.shuffle(order)
    image = bytearray(draw.randbytes(1001))
    for number, (_, data) in enumerate(order):
        image += data
        image += draw.randbytes(draw.randrange(70)) if number % 3 else b"\xda\xa3\x20\xa7" * 3
    image += order[0][1][:-1]  # cut off
    path.write_bytes(image)
    return records


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
@pytest.mark.parametrize("name", ["4.4.0-multiseg", "5.3.3-propcrc", "4.9.8-ipv6", "5.0.0-innerbatch"])
def test_records_at_odd_places_of_an_image_are_found(
    name: str, kernels: str, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
    source = store_dir(name)
    records = odd_image(source, tmp_path / "disk.img")
    size = str(min(path.stat().st_size for path in (source / "commitlog").iterdir()))
    into = tmp_path / "new"
    arguments = [
        "--into",
        str(into),
        "--commitlog-file-size",
        size,
        "--broker-version",
        released(name.partition("-")[0]),
    ]
    assert run(["salvage", str(tmp_path / "disk.img"), *arguments]) == 0
    assert records_of(into) == records
    assert problems(into) == {}
    assert_balanced(ledger_of(into), into)
    assert (into / "config" / "topics.json").exists()


def test_misnamed_cut_and_doubled_files(store_dir: Directory, tmp_path: Path) -> None:
    """Two copies, one damaged and cut, the other under wrong names: together they are the log."""
    source = store_dir("4.9.8-multiseg")
    mess = tmp_path / "mess"
    (mess / "b").mkdir(parents=True)
    messages = messages_of(source / "commitlog")
    for number, path in enumerate(sorted((source / "commitlog").iterdir())):
        data = bytearray(path.read_bytes())
        (mess / "b" / f"recovered{number}").write_bytes(data)
        hit = next(m for m, _ in messages if Path(m.path).name == path.name and m.pos > 5000)
        data[hit.body_pos] ^= 0x55
        data[60_000:64_000] = bytes(4000)
        (mess / path.name).write_bytes(data[:100_000])
    into = tmp_path / "new"
    assert run(["salvage", str(mess), "--into", str(into), "--commitlog-file-size", "131072"]) == 0
    assert records_of(into) == records_of(source)
    assert problems(into) == {}
    ledger = ledger_of(into)
    assert_balanced(ledger, into)
    fates = {row["fate"] for row in ledger if row["kind"].endswith(".records")}
    assert fates == {"taken", "copy", "damaged-copy"}
    copies = [row for row in ledger if row.get("fate") == "copy"]
    for row in copies:
        of = Path(row["copy_of"]["path"]).read_bytes()[row["copy_of"]["start"] :]
        assert of.startswith(Path(row["path"]).read_bytes()[row["start"] : row["end"]])


def test_damage_in_the_middle_is_fenced(store_copy: Directory, tmp_path: Path) -> None:
    source = store_copy("5.3.3-multiseg")
    path = min((source / "commitlog").iterdir())
    lost = [message for message, _ in messages_of(source / "commitlog")][100:110]
    with path.open("r+b") as stream:
        stream.seek(lost[0].pos + 3)
        stream.write(bytes(lost[-1].pos - lost[0].pos + 50))
    into = tmp_path / "new"
    assert run(["salvage", str(source), "--into", str(into), "--layout", "keep"]) == 1
    assert records_of(into) == records_of(source)
    assert set(problems(into)) <= {LOSS}
    ledger = ledger_of(into)
    (fence,) = [row for row in ledger if row["kind"].endswith(".fence")]
    assert (fence["start_offset"], fence["end_offset"]) == (
        lost[0].physical_offset,
        lost[-1].physical_offset + lost[-1].total_size,
    )
    missing = sum(row["missing_count"] for row in ledger if row["kind"].endswith(".queue"))
    assert missing == len(lost) == ledger[0]["missing_count"]


def test_where_brokers_would_skip_records_they_are_packed(
    store_copy: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A hole in a queue makes a broker go on with the next file: nothing may stand behind it in the first."""
    source = store_copy("5.3.3-multiseg")
    first, second = sorted((source / "commitlog").iterdir())[:2]
    for path, layout in ((second, "keep"), (first, "pack")):
        messages = messages_of(source / "commitlog")
        lost = [m for m, _ in messages if Path(m.path) == path][100]
        with path.open("r+b") as stream:
            stream.seek(lost.pos)
            stream.write(bytes(lost.total_size))
        assert run(["salvage", str(source), "--into", str(tmp_path / layout)]) == 1
        assert ledger_of(tmp_path / layout)[0]["layout"] == layout
        assert "Warning" not in capfd.readouterr().out
    assert run(["salvage", str(source), "--into", str(tmp_path / "asked"), "--layout", "keep"]) == 1
    behind = [
        m
        for m, _ in messages_of(source / "commitlog")
        if Path(m.path) == first
        and (m.topic, m.queue_id) == (lost.topic, lost.queue_id)
        and m.queue_offset > lost.queue_offset
    ]
    assert f"Warning: brokers will not deliver {len(behind)} records" in capfd.readouterr().out


def test_confidence_decides(store_copy: Directory, tmp_path: Path) -> None:
    source = store_copy("4.9.8-basic")
    path = min((source / "commitlog").iterdir())
    message = next(m for m, _ in messages_of(source / "commitlog") if m.body_size > 30)
    with path.open("r+b") as stream:
        stream.seek(message.body_pos)
        stream.write(b"not what was there")
    assert run(["salvage", str(source), "--into", str(tmp_path / "medium"), "--layout", "keep"]) == 1
    assert message.physical_offset not in records_of(tmp_path / "medium")
    assert run(["salvage", str(source), "--into", str(tmp_path / "low"), "--min-confidence", "low"]) == 4
    assert problems(tmp_path / "low").keys() == {"CL004"}
    (row,) = [row for row in ledger_of(tmp_path / "medium") if row.get("fate") == "unsure"]
    assert "body-crc-wrong" in row["reasons"]
    assert row["level"] == "low"
    assert row["topic"] == message.topic
    assert (row["start"], row["end"]) == (message.pos, message.pos + message.total_size)


def test_fences_are_not_salvaged_as_messages(store_copy: Directory, tmp_path: Path) -> None:
    """A salvaged store is salvaged to the same records again, packed or not."""
    source = store_copy("4.9.8-multiseg")
    path = min((source / "commitlog").iterdir())
    with path.open("r+b") as stream:
        stream.seek(20_000)
        stream.write(bytes(9000))
    assert run(["salvage", str(source), "--into", str(tmp_path / "one"), "--layout", "keep"]) == 1
    for layout in ("keep", "pack"):
        again = tmp_path / layout
        assert run(["salvage", str(tmp_path / "one"), "--into", str(again), "--layout", layout]) == 1
        assert "fence" in {row.get("fate") for row in ledger_of(again)}
    assert records_of(tmp_path / "keep") == records_of(tmp_path / "one")
    assert len(records_of(tmp_path / "pack")) == len(records_of(tmp_path / "one"))
    assert set(problems(tmp_path / "pack")) <= {LOSS}


def test_a_dry_run_writes_nothing(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = store_dir("4.9.8-basic")
    before = sorted(tmp_path.rglob("*"))
    assert run(["salvage", str(source), "--dry-run", "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["records"] == {"taken": len(records_of(source))}
    assert document["kind"] == "rocketfsck.salvage"
    assert run(["salvage", str(source), "--into", str(tmp_path / "new"), "--dry-run"]) == 0
    assert "Nothing was written" in capfd.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{store}"], 16),  # no --into
        (["{store}", "--into", "{store}/new"], 16),
        (["{store}", "--into", "{tmp}/there"], 8),
        (["{store}/nothing", "--into", "{tmp}/new"], 8),
        (["{tmp}/empty", "--into", "{tmp}/new"], 16),
        (["{store}", "--into", "{tmp}/new", "--commitlog-file-size", "100"], 16),
        (["{store}", "--into", "{tmp}/new", "--broker-version", "nine"], 16),
        (["{store}", "--into", "{tmp}/new", "--layout", "keep", "--commitlog-file-size", "3000"], 16),
        (["/dev/null", "--into", "{tmp}/new"], 8),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], code: int, store_dir: Directory, tmp_path: Path
) -> None:
    store = shutil.copytree(store_dir("4.9.8-basic"), tmp_path / "store")
    (tmp_path / "there").mkdir()
    (tmp_path / "empty").mkdir()
    before = hashes(tmp_path)
    assert run(["salvage", *(text.format(store=store, tmp=tmp_path) for text in arguments)]) == code
    assert hashes(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "store", "there"]


def test_killed_at_any_time_there_is_a_whole_store_or_none(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("5.3.3-multiseg")
    before, seen = hashes(source), set()
    for number, patience in enumerate((0.4, 0.7, 0.9, 1.1, 1.3, 1.6, 2.0, 60.0)):
        into = tmp_path / f"new{number}"
        command = [sys.executable, "-m", "rocketfsck.cli", "salvage", str(source), "--into", str(into)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
        seen.add(into.exists())
        if into.exists():
            assert records_of(into) == records_of(source)
            assert_balanced(ledger_of(into), into)
            assert problems(into) == {}
        visible = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
        assert {name for name in visible if name.startswith(f"new{number}")} <= {
            into.name,
            f"{into.name}.ledger.jsonl",
        }
    assert hashes(source) == before
    assert True in seen
