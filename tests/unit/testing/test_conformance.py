"""assert_conformant: what it takes, and what it says of what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketfsck.errors import NoStoreError, StoreError, UsageError
from rocketfsck.testing import NotConformantError, PlannedStore, assert_conformant, breaches
from rocketfsck.writer import EndState, OutgoingMessage, WriteOptions
from rocketfsck.writer.damage import damage_store

from tests.conftest import STORE_NAMES, Directory

UNCLEAN = {
    "4.9.8-killed",
    "4.9.8-lagkill-transient",
    "5.3.3-killed",
    "5.1.3-killed-restarted",
    "4.9.8-ghosttail",
}


@pytest.mark.parametrize("name", STORE_NAMES)
def test_what_real_brokers_wrote(name: str, store_dir: Directory) -> None:
    if name not in UNCLEAN:
        assert not breaches(assert_conformant(store_dir(name)))
        return
    with pytest.raises(NotConformantError) as caught:
        assert_conformant(store_dir(name))
    assert caught.value.findings == breaches(caught.value.report)


def test_what_may_be_ignored(store_dir: Directory) -> None:
    assert assert_conformant(store_dir("5.3.3-killed"), ignore=["abort-present", "CP003"]).exit_code == 0


def test_the_text_names_place_meaning_and_next_command(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("5.3.3-basic"), tmp_path / "broken", ["wrong-size", "chain-cycle"], 1)
    with pytest.raises(NotConformantError) as caught:
        assert_conformant(tmp_path / "broken", version="5.3.3")
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("is not a conformant store (as 5.3.3, given; level full):")
    assert any(line.startswith("  XR007 unit-size, consumequeue/") and " at byte " in line for line in lines)
    assert any(line.startswith("  I3, hash chains broken: ") for line in lines)
    assert any(line.startswith("  next: rocketfsck dump ") for line in lines)


def test_many_breaches_are_counted(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("5.3.3-basic"), tmp_path / "broken", ["missing-all-queues"])
    with pytest.raises(NotConformantError, match=r"\.\.\. and \d+ more") as caught:
        assert_conformant(tmp_path / "broken")
    assert len(caught.value.findings) > 20


def test_a_lower_level_looks_at_less(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("5.3.3-basic"), tmp_path / "broken", ["body-flip"])
    assert_conformant(tmp_path / "broken", level="cross")
    with pytest.raises(NotConformantError, match="CL004 record-body-crc"):
        assert_conformant(tmp_path / "broken")


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError):
        assert_conformant(tmp_path)
    with pytest.raises(StoreError):
        assert_conformant(tmp_path / "absent")
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    with pytest.raises(UsageError):
        assert_conformant(tmp_path, ignore=["no-such-rule"])
    with pytest.raises(UsageError):
        assert_conformant(tmp_path, version="moon")


def test_a_file_that_cannot_be_read(store_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_copy("5.3.3-basic")
    from rocketfsck.verify.store import checkpoint as check_checkpoint

    def fail(*_: object) -> bytes:
        raise StoreError("cannot be read: Input/output error", path="checkpoint")

    monkeypatch.setattr(check_checkpoint, "read_whole", fail)
    with pytest.raises(NotConformantError, match="checkpoint could not be read"):
        assert_conformant(store)


def test_a_planned_store(tmp_path: Path) -> None:
    messages = tuple(OutgoingMessage("T", b"x", 1_700_000_000_000 + number) for number in range(5))
    planned = PlannedStore(WriteOptions(version="4.9.8"), messages)
    assert planned.messages == messages
    assert planned.version == "4.9.8"
    assert not planned.was_killed
    assert planned.write(tmp_path / "store").message_count == 5
    assert "maxIndexNum=20000000\n" in planned.broker_conf
    conf = tmp_path / "broker.conf"
    conf.write_text(planned.broker_conf)
    assert (
        assert_conformant(tmp_path / "store", broker_conf=conf).store.geometry_sources["slot_count"]
        == "given"
    )
    killed = PlannedStore(WriteOptions(end_state=EndState.KILLED), messages)
    assert killed.was_killed
    killed.write(tmp_path / "killed")
    with pytest.raises(NotConformantError, match="CP001"):
        assert_conformant(tmp_path / "killed")


def test_neither_pytest_nor_hypothesis_is_needed() -> None:
    code = (
        "import sys; from rocketfsck.testing import assert_conformant; "
        "print(sorted({'pytest', 'hypothesis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
