"""What is loaded, refused, ignored, by version. Reference 1.2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.query.start.load import load_files
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_start

from tests.unit.query.maker import make, message, reopen


def grow(root: Path, version: str = "4.9.8") -> Path:
    """A store of three log files and queues of several files."""
    make(root, [message(number) for number in range(60)], version=version)
    return root / "store"


def start(root: Path, version: str) -> Start:
    return simulate_start(reopen(root, version=version), version)


REFUSING = ("4.5.1", "4.9.1", "4.9.3", "4.9.8", "5.0.0", "5.1.4", "5.3.3", "5.3.4", "5.5.1")
IGNORING = ("4.3.2", "4.4.0", "4.9.2")


@pytest.mark.parametrize("version", REFUSING)
@pytest.mark.parametrize("area", ["commitlog", "consumequeue/Order/0"])
def test_a_wrong_length_refuses_the_start(area: str, version: str, tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / area / ".stray").write_bytes(b"hello")
    found = start(tmp_path, version)
    assert not found.loads
    assert found.harmful
    assert [item.file for item in found.refusals] == [f"{area}/.stray"]
    assert found.refusals[0].reason.startswith("5 length not matched message store config value")
    assert (found.files, found.scan, found.dispatch) == ((), None, None)


@pytest.mark.parametrize("version", IGNORING)
def test_a_wrong_length_hides_all_behind_it(version: str, tmp_path: Path) -> None:
    store = grow(tmp_path)
    names = sorted(path.name for path in (store / "commitlog").iterdir())
    (store / "commitlog" / names[1]).write_bytes(b"short")
    found = start(tmp_path, version)
    assert found.loads
    assert [item.file for item in found.ignored] == [f"commitlog/{name}" for name in names[1:]]
    assert "length" in found.ignored[0].why
    assert names[1] in found.ignored[1].why
    assert found.harmful


@pytest.mark.parametrize("version", ["4.4.0", "4.9.8", "5.3.3"])
def test_a_name_that_is_no_number(version: str, tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / "commitlog" / "copy-of-log").write_bytes(bytes(4096))
    found = start(tmp_path, version)
    assert [item.reason for item in found.refusals] == [
        'java.lang.NumberFormatException: For input string: "copy-of-log"'
    ]


@pytest.mark.parametrize(
    ("version", "loads"),
    [("4.4.0", True), ("4.9.8", False), ("5.0.0", False), ("5.1.0", True), ("5.3.3", True)],
)
def test_a_directory_among_the_files(version: str, loads: bool, tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / "commitlog" / "zz").mkdir()
    found = start(tmp_path, version)
    assert found.loads is loads
    assert bool(found.ignored) is (version == "4.4.0")


@pytest.mark.parametrize(("version", "deleted"), [("5.1.2", False), ("5.1.3", True), ("5.3.3", True)])
def test_an_empty_last_file(version: str, deleted: bool, tmp_path: Path) -> None:
    store = grow(tmp_path)
    name = "commitlog/" + "9" * 19
    (store / name).touch()
    found = start(tmp_path, version)
    assert found.loads is deleted
    assert (name in {item.file for item in found.files if item.change == "deleted"}) is deleted


def test_an_empty_file_that_is_not_the_last(tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / "commitlog" / "-1").touch()
    assert [item.file for item in start(tmp_path, "5.3.3").refusals] == ["commitlog/-1"]


def test_all_queues_that_refuse_are_told(tmp_path: Path) -> None:
    make(tmp_path, [message(number, topic) for topic in ("A", "B", "C") for number in range(3)])
    for topic in ("A", "C"):
        (tmp_path / "store/consumequeue" / topic / "0/x").touch()
    (tmp_path / "store/consumequeue/B/seven").mkdir()
    (tmp_path / "store/consumequeue/B/note").touch()
    (tmp_path / "store/consumequeue/note").touch()
    found = start(tmp_path, "4.9.8")
    assert [item.file for item in found.refusals] == ["consumequeue/A/0/x", "consumequeue/C/0/x"]


def test_an_extension_of_a_wrong_length(tmp_path: Path) -> None:
    grow(tmp_path)
    ext = tmp_path / "store/consumequeue_ext/Order/0"
    ext.mkdir(parents=True)
    (ext / ("0" * 20)).write_bytes(bytes(4096))
    (ext / "x").write_bytes(b"short")
    store = reopen(tmp_path)

    def refused(with_ext: bool) -> list[str]:
        loading = load_files(store, dialect_for("4.9.8"), lambda _: None, with_ext=with_ext)
        return [item.file for item in loading.refusals]

    assert refused(False) == []
    assert all(file.startswith("consumequeue_ext/Order/0/") for file in refused(True))
    assert refused(True)


def test_a_topic_with_both_kinds_of_queues(tmp_path: Path) -> None:
    store = grow(tmp_path)
    queue = store / "batchconsumequeue/Order/0"
    queue.mkdir(parents=True)
    (queue / ("0" * 20)).write_bytes(bytes(460))
    for version, loads in (("4.9.8", True), ("5.3.3", False)):
        found = start(tmp_path, version)
        assert found.loads is loads
    assert found.refusals[0].file == "batchconsumequeue/Order/0"
    assert found.refusals[0].reason.endswith("topic: Order should be BatchCQ, but is SimpleCQ")


def test_batch_queues_of_a_store_without_topics_json(tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / "config/topics.json").unlink(missing_ok=True)
    (store / "consumequeue/Order").rename(store / "batchconsumequeue")
    (store / "batchconsumequeue").rename(store / "Order")
    (store / "batchconsumequeue").mkdir()
    (store / "Order").rename(store / "batchconsumequeue/Order")
    for path in (store / "batchconsumequeue/Order/0").iterdir():
        path.write_bytes(bytes(460))
    found = start(tmp_path, "5.3.3")
    assert not any("queue type" in item.reason for item in found.refusals)


def test_a_commit_log_elsewhere_keeps_its_full_path(tmp_path: Path) -> None:
    store = grow(tmp_path)
    (store / "commitlog").rename(tmp_path / "log")
    (tmp_path / "log/.stray").touch()
    from rocketfsck.store import open_store

    opened = open_store(store, version="4.9.8", commitlog_paths=[tmp_path / "log"])
    assert simulate_start(opened, "4.9.8").refusals[0].file == str(tmp_path / "log/.stray")


@pytest.mark.parametrize(("version", "loads"), [("5.1.3", True), ("5.1.4", False), ("5.5.0", False)])
def test_a_topic_without_its_name(version: str, loads: bool, tmp_path: Path) -> None:
    """Released brokers of 5.1.4 and 5.5.0 fail when they register; of 5.1.0 and 5.1.1 they do not."""
    root = grow(tmp_path, version)
    topics = {"T": {"topicName": "T"}, "U": {}}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    found = start(tmp_path, version)
    assert found.loads == loads
    reasons = [f"{item.file}: {item.reason}" for item in found.refusals]
    said = "config/topics.json: java.lang.NullPointerException: the topic U has no topicName"
    assert reasons == ([] if loads else [said])
