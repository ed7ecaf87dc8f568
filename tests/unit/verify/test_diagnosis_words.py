"""A diagnosis says what is true of this store, not all that its class may mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.store.model import StatedOptions
from rocketfsck.store.places.urls import StorageOptions
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.diagnoses import stated_words

from tests.conftest import Directory


def test_a_command_line_says_how_the_store_was_opened() -> None:
    """Without the values of storage options, which may be secrets."""
    stated = StatedOptions(
        Path("broker.conf"),
        "5.3.3",
        (Path("one"), Path("two")),
        storage_options=StorageOptions({"key": "secret"}),
    )
    assert stated_words(stated) == (
        "--broker-conf", "broker.conf", "--broker-version", "5.3.3",
        "--commitlog-path", "one", "--commitlog-path", "two", "--storage-option", "key=VALUE",
    )  # fmt: skip
    assert stated_words(StatedOptions()) == ()


def test_an_empty_last_segment_of_a_broker_that_deletes_it(store_copy: Directory) -> None:
    store = store_copy("5.3.3-multiseg")
    files = sorted((store / "commitlog").iterdir())
    size = files[-1].stat().st_size
    (store / "commitlog" / f"{int(files[-1].name) + size:020}").touch()
    report = check_store(open_store(store, version="5.3.3"), CheckOptions())
    (diagnosis,) = (item for item in report.diagnoses if item.fault_class == "C6")
    assert diagnosis.rules == ("ST002",)
    assert "deletes that file" in diagnosis.text
    assert "refuse to start" not in diagnosis.text


@pytest.mark.parametrize("name", ["4.9.8-basic", "5.3.3-basic"])
def test_a_zeroed_checkpoint_costs_no_index_entry(name: str, store_copy: Directory) -> None:
    store = store_copy(name)
    (store / "checkpoint").write_bytes(bytes((store / "checkpoint").stat().st_size))
    (store / "abort").touch()
    report = check_store(open_store(store), CheckOptions())
    found = [item for item in report.diagnoses if item.fault_class == "I1"]
    for diagnosis in found:
        assert diagnosis.rules == ("CP003",)
        assert "have no index entries" not in diagnosis.text
    assert found
