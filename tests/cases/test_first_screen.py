"""The first screen of `check`: after an interruption, and of files that are torn or missing in the middle."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

import rocketfsck
from rocketfsck.cli.commands import fix
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.writer.damage import damage_store
from rocketfsck.writer.disk import fileops

from tests.cases.test_repairs import tree
from tests.conftest import Directory
from tests.unit.cli.conftest import Cli, cli  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what a power cut leaves."""
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


class Killed(BaseException):
    """In place of a kill."""


def interrupt(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Leave the store as a repair in place that was killed while it changed files."""
    patch.setattr("rocketfsck.repair.area.journal.write_manifests", Mock(side_effect=Killed))
    patch.setattr("rocketfsck.repair.apply.applying._clean_up", lambda *_: "")
    with pytest.raises(Killed):
        fix.fix_command.main(["--yes", "--in-place", str(root)], standalone_mode=False)


def test_an_interrupted_repair_comes_first(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)
    original = tree(root)
    with monkeypatch.context() as patch:
        interrupt(root, patch)
    listed = tree(tmp_path)
    ended = cli("check", root)
    lines = ended.out.splitlines()
    assert ended.code == 4
    assert lines[0] == "Do not start a broker: a repair of this store was interrupted."
    assert f"  Next    rocketfsck fix {root}" in lines
    area = next(path for path in tmp_path.iterdir() if path.name.startswith("store.before-"))
    assert area.name in ended.out.replace("\n", "").replace(" ", "")
    assert "rocketfsck undo" in ended.out
    assert json.loads(cli("check", root, "--format", "json").out)["verdict"]["state"] == "interrupted"
    assert "a repair of this store is not finished" in cli("info", root).out
    assert tree(tmp_path) == listed  # check writes nothing
    assert cli("fix", "--yes", root).code == 1
    assert cli("check", root).code == 0
    assert cli("undo", root).code == 0
    assert tree(root) == original
    assert "was interrupted" not in cli("check", root).out


def test_a_half_record_in_a_file_that_is_not_the_last_is_in_the_middle(
    store_dir: Directory, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(store_dir("4.9.8-multiseg"), root)
    logs = sorted(path for path in (root / "commitlog").iterdir() if path.name.isdigit())
    tear(logs[1])
    report = check_store(open_store(root))
    assert "CL002" in report.counts
    (middle,) = [item for item in report.diagnoses if "CL002" in item.rules]
    assert middle.fault_class == "C2"
    assert "C1" not in {item.fault_class for item in report.diagnoses}
    last = tmp_path / "last"
    damage_store(store_dir("4.9.8-multiseg"), last, ["torn-tail"], 1, write_truth=False)
    assert "C1" in {item.fault_class for item in check_store(open_store(last)).diagnoses}


def tear(log: Path) -> None:
    """Zeros from the middle of the last record of a commit log file on."""
    data = bytearray(log.read_bytes())
    pos = last = 0
    while (size := int.from_bytes(data[pos : pos + 4], "big")) > 0 and data[
        pos + 4 : pos + 8
    ] == b"\xda\xa3\x20\xa7":
        last, pos = pos, pos + size
    middle = (last + pos) // 2
    data[middle:] = bytes(len(data) - middle)
    log.write_bytes(data)


def test_a_missing_file_is_not_made_up_unasked(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:  # noqa: F811
    """A file of fillers takes the place of the one that is missing, which cannot be put back then."""
    root = tmp_path / "store"
    damage_store(store_dir("5.3.3-multiseg"), root, ["missing-segment"], 7, write_truth=False)
    original = tree(root)
    said = cli("check", root)
    assert "  First   look for the missing commit log files first" in said.out
    assert f"  Next    rocketfsck compare {root} REPLICA" in said.out
    assert "assumes that missing commit log files are gone: confirm with --assume" in said.out
    ended = cli("fix", "--yes", root)
    assert "fence-gap assumes missing_files" in " ".join(ended.out.split())
    assert sorted(path.name for path in (root / "commitlog").iterdir()) == sorted(
        name.rpartition("/")[2] for name in original if name.startswith("commitlog/")
    )
    if ended.code & 1:
        cli("undo", root)
    assert cli("fix", "--yes", "--assume", "missing_files", root).code == 1
    assert (
        json.loads(cli("check", root, "--format", "json").out)["verdict"]["messages"]["now"]["replaced_count"]
        == 272
    )
    assert cli("undo", root).code == 0
    assert tree(root) == original


@pytest.mark.parametrize(("name", "version"), [
    ("lock", ""), ("checkpoint", ""), ("abort", "5.5.0"), ("timerwheel", "5.5.0"),
    ("config/timercheck", "5.5.0"), ("config", "5.5.0"),
])  # fmt: skip
def test_a_directory_where_a_broker_opens_a_file(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
    name: str,
    version: str,
) -> None:
    """A 5.5.0 broker starts on none of them; on the others that it makes directories of, it does."""
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    shutil.rmtree(root / "config", ignore_errors=True)
    (root / name).unlink(missing_ok=True)
    if name == "config":
        (root / name).write_bytes(b"x")
    else:
        (root / name).mkdir(parents=True)
    original = tree(root)
    found = cli("check", root)
    assert found.code == 4 and found.out.startswith("A broker does not start on this store.\n")
    assert f"does not start: {name}: java.io.FileNotFoundException" in found.out
    assert cli("fix", "--yes", root).code in (0, 1)
    assert "does not start" not in cli("check", root).out
    assert cli("undo", root).code == 0
    assert tree(root) == original
    if version:  # brokers before 5.0.0 neither write to `abort` nor have timers
        assert "does not start" not in cli("check", root, "--version", "4.9.8").out


@pytest.mark.parametrize(("name", "target", "error"), [
    ("lock", "not-mounted/lock", "No such file or directory"),
    ("checkpoint", "not-mounted/checkpoint", "No such file or directory"),
    ("checkpoint", "store/checkpoint", "Too many levels of symbolic links"),
    ("timerwheel", "not-mounted/timerwheel", "No such file or directory"),
    ("config", "not-mounted", "No such file or directory"),
    ("lock", "lock", None), ("checkpoint", "checkpoint", None), ("config/topics.json", "topics.json", None),
])  # fmt: skip
def test_a_dead_link_where_a_broker_opens_a_file(
    cli: Cli,  # noqa: F811
    any_dir: Directory,
    tmp_path: Path,
    name: str,
    target: str,
    error: str | None,
) -> None:
    """A 5.5.0 broker starts where the directory of the link's target is there: it makes the file."""
    root = Path(shutil.copytree(any_dir("5.5.0-timer"), tmp_path / "store"))
    if name == "config":
        shutil.rmtree(root / name)
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(tmp_path / target)
    out = " ".join(cli("check", root).out.split())
    if error is None:
        assert "does not start" not in out
    else:
        assert out.startswith("A broker does not start on this store. ")
        assert f"does not start: {name}: java.io.FileNotFoundException: {root / name} ({error})" in out


@pytest.mark.parametrize("dangling", [False, True])
def test_what_is_where_the_consume_queues_belong(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
    dangling: bool,
) -> None:
    """A 5.5.0 broker starts, makes no queue, delivers nothing and sets the flag that refuses all messages."""
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    queues = root / "consumequeue"
    shutil.rmtree(queues)
    whole = cli("simulate", root).out
    assert "no message" not in whole and "not a directory" not in whole
    if dangling:
        queues.symlink_to(tmp_path / "not-mounted" / "consumequeue")
    else:
        queues.write_bytes(b"x")
    found = cli("check", root)
    reason = "delivers and takes no messages, because consumequeue is not a directory"
    first, *rest = " ".join(found.out.split()).split(". ", 1)
    assert found.code == 4 and first.startswith(f"Do not start a broker: it {reason}"), first
    assert f"starts; {reason}" in " ".join(rest)
    assert "twice" not in found.out  # what takes no message gives out no queue offset
    if not dangling:
        assumed = ("--assume", "consumequeue_file_size", "--assume", "queue_kinds")
        assert cli("fix", "--yes", *assumed, root).code in (0, 1)
        assert reason not in " ".join(cli("check", root).out.split())


def test_a_broker_that_does_not_read_all_of_a_store(cli: Cli, any_dir: Directory) -> None:  # noqa: F811
    found = cli("check", "--as-broker", "4.9.7", any_dir("5.5.0-timer"))
    assert found.out.startswith("Do not start a broker: it never delivers 13 timer messages that wait.\n")


@pytest.mark.parametrize("last", [False, True])
def test_a_log_file_that_somebody_compressed(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
    last: bool,
) -> None:
    root = Path(shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "store"))
    file = [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes())][
        -1 if last else 1
    ]
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    whole = file.read_bytes()
    file.unlink()
    assert f"  First   uncompress commitlog/{packed.name} in its place first" in cli("check", root).out
    packed.write_bytes(b"not compressed")
    assert "uncompress" not in cli("check", root).out
    packed.unlink()
    file.write_bytes(whole)
    assert "  First" not in cli("check", root).out


@pytest.mark.parametrize(
    ("name", "first", "end"),
    [
        # 131072 sorts after 0, and all numbers of six digits in their order
        ("4.9.8-multiseg", "Damaged. A broker may be started: its start loses nothing.", None),
        # 65536 sorts after 393216: for a broker the log ends there
        ("4.4.0-multiseg", "Do not start a broker: its start would lose 686 sound messages.", 131072),
    ],
)
def test_log_files_whose_names_were_shortened(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
    name: str,
    first: str,
    end: int | None,
) -> None:
    """All of them: Java reads the names as numbers, and takes the files in the order of their names."""
    root = Path(shutil.copytree(store_dir(name), tmp_path / "store"))
    original = tree(root)
    for path in (root / "commitlog").iterdir():
        path.rename(path.with_name(str(int(path.name))))
    with rocketfsck.open(root) as store:
        reached = sum(end is None or message.physical_offset < end for message in store.messages())
    said = cli("check", root).out
    assert said.startswith(first)
    assert "  Lost    nothing" in said
    messages = json.loads(cli("check", root, "--format", "json").out)["verdict"]["messages"]
    assert {after["messages"]["served_count"] for after in messages["after_starts"]} == {reached}
    assert cli("fix", "--yes", root).code == 1
    assert tree(root) == original


@pytest.mark.parametrize("seed", range(4))
def test_garbage_in_the_middle_of_a_queue(seed: int, store_dir: Directory, tmp_path: Path) -> None:
    """The units after it lead to their records: no message counts twice, as got and as lost."""
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    whole = check_store(open_store(root)).account
    queue = max((root / "consumequeue").glob("*/*/*"), key=lambda path: len(path.read_bytes().rstrip(b"\0")))
    data = bytearray(queue.read_bytes())
    data[100:200] = random.Random(seed).randbytes(100)
    queue.write_bytes(data)
    account = check_store(open_store(root)).account
    assert account is not None
    assert whole is not None
    assert (account.lost_count, account.perhaps_lost_count, account.unreachable_count) == (0, 0, 5)
    assert account.count("served") == whole.count("served") - 5


def test_a_queue_that_was_copied(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:  # noqa: F811
    """Its units are those of the other queue: no message is lost with them."""
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    queue = next(path for path in sorted((root / "consumequeue").glob("*/0")) if any(path.iterdir()))
    shutil.copytree(queue, queue.with_name("7"))
    ended = cli("check", root)
    assert ended.code == 4
    assert "  Lost    nothing" in ended.out
    assert "the record of that place in another queue is there" in " ".join(ended.out.split())
