"""bugreport: the archive has the findings of the store, and none of its data."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.commands.bugreport import BugReport
from rocketfsck.common.documents import from_document
from rocketfsck.store.opening import open_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

DAMAGED = "5.1.3-basic--flip-last-file"


def _made(cli: Cli, root: Path, target: Path, *options: object) -> dict[str, Any]:
    ended = cli("bugreport", root, "-o", target, "--format", "json", *options)
    assert (ended.code, ended.err) == (0, "")
    document: dict[str, Any] = json.loads(ended.out)
    from_document(BugReport, document, "bug report")
    return document


def _unpacked(target: Path, place: Path) -> Path:
    with tarfile.open(target) as archive:
        archive.extractall(place, filter="data")
    return place / "bugreport"


@pytest.mark.parametrize("name", [DAMAGED, "4.9.8-basic--torn-tail", "4.9.8-killed--index-truncated"])
def test_the_copy_has_the_findings(cli: Cli, restart_dir: Directory, tmp_path: Path, name: str) -> None:
    root, target = restart_dir(name), tmp_path / "bug.tar.gz"
    about = _made(cli, root, target)
    assert [path.name for path in tmp_path.iterdir()] == ["bug.tar.gz"], "the copy beside it is gone"
    assert about["findings"]
    assert all(finding["kept"] for finding in about["findings"])
    assert (about["kept_count"], about["new_count"]) == (len(about["findings"]), 0)
    made = _unpacked(target, tmp_path / "out")
    assert json.loads((made / "about.json").read_text()) == about
    again = json.loads(cli("check", made / "store", "--format", "json").out)
    assert sorted(finding["rule"] for finding in again["findings"]) == sorted(
        finding["rule"] for finding in about["findings"]
    )
    report = json.loads((made / "report.json").read_text())
    assert report["store"]["root"] == "store"
    assert "what can still be read" in " ".join((made / "README.txt").read_text().lower().split())


def test_nothing_of_the_store_is_in_the_archive(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    root, target = restart_dir(DAMAGED), tmp_path / "bug.tar.gz"
    _made(cli, root, target)
    made = _unpacked(target, tmp_path / "out")
    private = {b"10.9.8.7", b"\x0a\x09\x08\x07", str(tmp_path).encode(), str(root).encode()}
    for message in iter_messages(open_store(root)):
        private |= {word.encode() for word in (message.unique_key or "", *message.keys) if len(word) > 5}
        topic = message.topic.split("%")[-1]
        private |= (
            {topic.encode()} if not message.topic.startswith(("RMQ_SYS", "rmq_sys", "SCHEDULE")) else set()
        )
        body = bytes(message.body or b"")
        if len(body) > 8 and len(set(body)) > 3:
            private.add(body)
    assert len(private) > 100
    names = {path.name.encode() for path in made.rglob("*")}
    for path in filter(Path.is_file, made.rglob("*")):
        data = path.read_bytes()
        assert [word for word in private if word in data] == [], path
    assert not private & names


def test_the_store_is_not_changed(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(restart_dir(DAMAGED), tmp_path / "store"))

    def state() -> dict[str, tuple[int, bytes]]:
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    _made(cli, root, tmp_path / "bug.tar.gz")
    assert state() == before
    assert cli("bugreport", root, "-o", root / "bug.tar.gz").code == 16
    assert state() == before


def test_one_finding_and_no_copy(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    root, target = restart_dir(DAMAGED), tmp_path / "bug.tar.gz"
    report = json.loads(cli("check", root, "--format", "json").out)
    [print_of] = [finding["fingerprint"] for finding in report["findings"] if finding["rule"] == "CL004"]
    about = _made(cli, root, target, "--finding", print_of, "--max-copy", "1KiB")
    [finding] = about["findings"]
    assert (finding["rule"], finding["start"], finding["kept"]) == ("CL004", 26305, None)
    assert "more than --max-copy" in about["why_no_copy"]
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["bugreport/README.txt", "bugreport/about.json"]
    text = cli("bugreport", root, "-o", target, "--max-copy", "1KiB").out
    assert "no copy of the store" in text
    wrong = cli("bugreport", root, "-o", target, "--finding", "0" * 16)
    assert wrong.code == 16
    assert "no finding with the fingerprint" in wrong.err


def test_strays_have_other_names_and_no_content(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(restart_dir(DAMAGED), tmp_path / "store"))
    (root / "commitlog" / "mynotes.txt").write_text("a secret")
    (root / "linked").symlink_to(root / "checkpoint")
    ended = cli("bugreport", root, "-o", tmp_path / "bug.tar.gz")
    assert ended.code == 0
    made = _unpacked(tmp_path / "bug.tar.gz", tmp_path / "out")
    [stray] = [path for path in (made / "store" / "commitlog").iterdir() if path.suffix == ".txt"]
    assert (stray.name != "mynotes.txt", stray.read_bytes()) == (True, bytes(8))
    about = json.loads((made / "about.json").read_text())
    assert all(finding["kept"] for finding in about["findings"] if "commitlog" in finding["file"])
    assert "mynotes" not in (made / "report.json").read_text() + json.dumps(about)


@pytest.mark.parametrize("name", [DAMAGED, pytest.param("4.9.8-basic--torn-tail", marks=pytest.mark.nightly)])
def test_a_smaller_copy_has_the_errors(cli: Cli, restart_dir: Directory, tmp_path: Path, name: str) -> None:
    root = restart_dir(name)
    whole = _made(cli, root, tmp_path / "whole.tar.gz")
    small = _made(cli, root, tmp_path / "small.tar.gz", "--shrink", "--max-duration", "10m")
    assert whole["dropped_file_count"] == 0
    assert small["dropped_file_count"] > 20
    assert small["copied_file_count"] + small["dropped_file_count"] == whole["copied_file_count"]
    worse = [item for item in small["findings"] if item["severity"] != "info"]
    assert worse and all(item["kept"] for item in worse)
    made = _unpacked(tmp_path / "small.tar.gz", tmp_path / "out")
    assert len([path for path in made.rglob("*") if path.is_file()]) == small["copied_file_count"] + 3
    again = json.loads(cli("check", made / "store", "--format", "json").out)
    places = [(item["rule"], item["where"]) for item in again["findings"]]
    found = {(rule, where["file"], where.get("start")) for rule, where in places}
    assert {(item["rule"], item["file"], item["start"]) for item in worse} <= found
    # none of its files can go
    assert small["copied_file_count"] < 7


def test_shrinking_is_limited_in_time(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    about = _made(cli, restart_dir(DAMAGED), tmp_path / "bug.tar.gz", "--shrink", "--max-duration", "0.0001s")
    assert about["dropped_file_count"] == 0
    ended = cli("bugreport", restart_dir(DAMAGED), "-o", tmp_path / "x.tar.gz", "--max-duration", "5s")
    assert (ended.code, "--max-duration goes with --shrink" in ended.err) == (16, True)


def test_one_finding_needs_less(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    root = restart_dir(DAMAGED)
    findings = json.loads(cli("check", root, "--format", "json").out)["findings"]
    [info] = [item for item in findings if item["rule"] == "IX028"]
    about = _made(cli, root, tmp_path / "bug.tar.gz", "--shrink", "--finding", info["fingerprint"])
    [kept] = about["findings"]
    assert kept["kept"] is True
    assert about["copied_file_count"] < 5


def test_what_is_dropped_comes_back(tmp_path: Path) -> None:
    from rocketfsck.writer.mask.shrink import shrink_copy, units_of

    names = ["commitlog/0", "consumequeue/T/0/a", "consumequeue/T/0/b", "consumequeue/T/1/a", "index/1"]
    for name in names:
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_text(name)
    queue = ("consumequeue/T/0/a", "consumequeue/T/0/b")
    assert queue in units_of(tmp_path / "store")
    done = shrink_copy(tmp_path, "store", (tmp_path / "store" / queue[1]).exists, 60)
    assert (done.dropped_count, done.stopped) == (3, False)
    left = [
        str(path.relative_to(tmp_path / "store"))
        for path in (tmp_path / "store").rglob("*")
        if path.is_file()
    ]
    assert sorted(left) == list(queue)
    assert (tmp_path / "store" / queue[0]).read_text() == queue[0]
    assert not (tmp_path / "store" / "index").exists()
    assert shrink_copy(tmp_path, "store", lambda: True, 0).stopped


@pytest.mark.parametrize("options", [("--shift-times",), ("--shift-times", "--coarse-times", "1s")])
def test_times_are_others(cli: Cli, restart_dir: Directory, tmp_path: Path, options: tuple[str, ...]) -> None:
    """All of the copy's times, and none of this machine's, from which the shift would follow."""
    root, target = restart_dir(DAMAGED), tmp_path / "bug.tar.gz"
    about = _made(cli, root, target, *options)
    assert about["kept_count"] == len(about["findings"]) > 0
    assert about["new_count"] == 0
    assert about["command"][4 : 4 + len(options)] == list(options)
    made = _unpacked(target, tmp_path / "out")
    [was], [now] = (
        {message.store_timestamp for message in list(iter_messages(open_store(path)))[:1]}
        for path in (root, made / "store")
    )
    assert 365 * 86_400_000 <= was - now < 8 * 365 * 86_400_000 + 1000
    text = (made / "report.json").read_text()
    assert json.loads(text)["started_timestamp"] == 0
    moved = range(now - 40 * 86_400_000, now + 40 * 86_400_000)
    times = {int(number) for number in re.findall(r"\b[0-9]{13}\b", text)}
    assert not [time for time in times if time not in moved]
    names = {path.name for path in (made / "store" / "index").iterdir()}
    assert names and not names & {path.name for path in (root / "index").iterdir()}


def test_what_coarse_times_can_be(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    for value in ("0", "0.5s", "1.5"):
        ended = cli("bugreport", restart_dir(DAMAGED), "-o", tmp_path / "x.tar.gz", "--coarse-times", value)
        assert (ended.code, "a whole number of seconds" in ended.err) == (16, True)
