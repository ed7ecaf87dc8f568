"""simulate, and what check says of a start: words, documents, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Directory, Document
from tests.unit.cli.conftest import Cli

FLIPPED = "4.9.8-multiseg--flip-older-file"


def test_a_start_that_loses_nothing(cli: Cli, store_dir: Directory) -> None:
    ended = cli("simulate", store_dir("5.3.3-multiseg"), "--as-broker", "5.3.3")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("A 5.3.3 broker starts on this store and loses nothing.\n")
    assert "Files         no file is deleted, created or resized" in ended.out


def test_a_start_that_cuts_the_log(cli: Cli, restart_dir: Directory, oracle: Document) -> None:
    ended = cli("simulate", restart_dir(FLIPPED), "--as-broker", "4.9.8")
    assert ended.code == 4
    assert "cuts 327 messages off the log" in ended.out.splitlines()[0]
    for name in oracle(FLIPPED)["afterShutdown"]["filesDeleted"]:
        assert name in ended.out
    assert "new messages are not indexed below offset 616276" in ended.out


def test_the_document(cli: Cli, restart_dir: Directory) -> None:
    ended = cli("simulate", restart_dir(FLIPPED), "--as-broker", "4.9.8", "--format", "json")
    document = json.loads(ended.out)
    assert (ended.code, document["schema_version"], document["harmful"]) == (4, 1, True)
    assert document["kind"] == "rocketfsck.simulate"
    (start,) = document["starts"]
    assert (start["version"], start["harmful"], start["loads"]) == ("4.9.8", True, True)
    assert start["cut_offset"] == 458817
    assert start["losses"]["cut_record_count"] == 327
    assert {item["change"] for item in start["files"]} == {"deleted"}


def test_all_versions_that_the_store_may_be_of(
    cli: Cli, restart_dir: Directory, store_copy: Directory
) -> None:
    ended = cli("simulate", restart_dir(FLIPPED), "--no-losses")
    assert ended.code == 4
    assert "cuts 327 messages off the log" in ended.out.splitlines()[0]
    assert ended.out.endswith("\nBrokers of 4.7.1 to 4.8.0, 4.9.1 to 4.9.8, 5.0.0-ALPHA end up the same.\n")
    document = json.loads(cli("simulate", restart_dir(FLIPPED), "--no-losses", "--format", "json").out)
    assert len(document["starts"]) > 1
    assert document["harmful"] == any(start["harmful"] for start in document["starts"])
    assert all(start["version"] in start["alike"] for start in document["starts"])
    given = ("--broker-version", "4.9.8", "--as-broker", "5.3.3", "--format", "json")
    (start,) = json.loads(cli("simulate", restart_dir(FLIPPED), "--no-losses", *given).out)["starts"]
    assert start["version"] == "5.3.3"
    store = store_copy("4.4.0-multiseg")
    (store / "commitlog/stray").touch()
    differ = cli("simulate", store).out.splitlines()
    # The worst first.
    assert differ[0].startswith("start of a broker (predicted), 4.5.1 to 4.7.0: does not start: ")
    assert differ[1].startswith("start of a broker (predicted), 4.2.0 to 4.4.0: starts; does not see 1 file")
    assert differ[2] == "--as-broker VERSION shows one of them in detail."


def test_every_part_is_shown(cli: Cli, restart_dir: Directory) -> None:
    lines = cli(
        "simulate", restart_dir("5.1.3-killed-restarted--cq-deleted-clean"), "--as-broker", "5.1.3", "-v"
    )
    assert lines.code == 4
    assert "uses 560 queue offsets twice" in lines.out
    assert "Without a unit  560 records of the log, 0 of them because of this start" in lines.out
    assert "Without an entry" in lines.out
    assert "index/20261120140649368" in lines.out


def test_a_refusal(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("4.9.8-multiseg")
    (store / "commitlog/\x1b[31mstray").touch()
    ended = cli("simulate", store, "--as-broker", "4.9.8")
    assert ended.code == 4
    assert ended.out.startswith("A 4.9.8 broker does not start on this store.\n")
    assert "0 length not matched message store config value" in ended.out
    assert "\x1b" not in ended.out
    ignored = cli("simulate", store, "--as-broker", "4.4.0")
    assert "does not see 6 files" in ignored.out
    assert "Not seen      commitlog/" in ignored.out


def test_queues_that_are_destroyed(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("4.9.8-multiseg")
    for path in (store / "commitlog").iterdir():
        path.unlink()
    ended = cli("simulate", store, "--as-broker", "4.9.8")
    assert "deletes all consume queues" in ended.out
    assert "the commit log has no files" in ended.out
    assert "more (-v shows them)" in ended.out
    assert "more (-v" not in cli("simulate", store, "--as-broker", "4.9.8", "-v").out


def test_what_a_dispatcher_passes_over(cli: Cli, store_copy: Directory, manifest: Document) -> None:
    store = store_copy("4.9.8-multiseg")
    for path in (store / "consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    path = min((store / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[4:8] = bytes(4)
    path.write_bytes(data)
    ended = cli("simulate", store, "--as-broker", "4.9.8")
    assert "does not dispatch 1 range of the log" in ended.out
    assert "  skips 0 to 131072: no record that this broker accepts" in ended.out
    sent = (row["physicalOffset"] for row in manifest("4.9.8-multiseg")["phases"][0]["messages"])
    count = sum(0 < offset < 131072 for offset in sent)
    assert f"Without a unit  {count} records of the log, 0 of them because of this start" in ended.out
    conf = store.parent / "broker.conf"
    conf.write_text("brokerId=1\n")
    slave = cli("simulate", store, "--as-broker", "4.9.8", "--broker-conf", conf)
    assert "stops at 0" in slave.out
    assert "does not start" in slave.out


def test_messages_lost_to_queries_and_consumers(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("5.3.3-killed")
    (store / "checkpoint").write_bytes((1 << 60).to_bytes(8, "big") * 2 + bytes(4080))
    ended = cli("simulate", store, "--as-broker", "5.3.3")
    assert "from queries by key" in ended.out


def test_losses_need_not_be_looked_for(cli: Cli, restart_dir: Directory) -> None:
    store = restart_dir("5.1.3-killed-restarted--cq-deleted-clean")
    document = json.loads(
        cli("simulate", store, "--as-broker", "5.1.3", "--no-losses", "--format", "json").out
    )
    assert document["starts"][0]["losses"]["by_queue_count"] is None


def test_mistakes(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("5.3.3-basic")
    assert cli("simulate", store, "--as-broker", "tomorrow").code == 16
    assert cli("simulate", tmp_path / "nothing", "--as-broker", "5.3.3").code == 8
    conf = tmp_path / "broker.conf"
    conf.write_text("enableDLegerCommitLog=true\n")
    ended = cli("simulate", store, "--as-broker", "5.3.3", "--broker-conf", conf)
    assert (ended.code, "cannot be predicted" in ended.err) == (8, True)


def test_check_says_what_a_start_would_do(cli: Cli, restart_dir: Directory, store_dir: Directory) -> None:
    ended = cli("check", restart_dir(FLIPPED), "--level", "quick", "--as-broker", "4.9.8")
    assert ended.out.startswith("Do not start a broker: its start would lose 327 sound messages")
    assert "  Start   4.9.8: starts; cuts 327 messages off the log" in ended.out
    assert ended.code & 4
    document = json.loads(
        cli("check", restart_dir(FLIPPED), "--level", "quick", "--as-broker", "5.3.3", "--format", "json").out
    )
    assert document["verdict"]["may_start"] is True
    assert [start["alike"] for start in document["verdict"]["starts"]] == [["5.3.3"]]
    clean = cli("check", store_dir("5.3.3-basic"), "--level", "quick", "--as-broker", "5.3.3")
    assert clean.code == 0
    assert "  Start   5.3.3: starts\n" in clean.out
    assert (
        "  Start   5.2.0 to 5.3.4: starts\n" in cli("check", store_dir("5.3.3-basic"), "--level", "quick").out
    )


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_check_keeps_rows_free_of_it(cli: Cli, store_dir: Directory, form: str) -> None:
    ended = cli(
        "check", store_dir("5.3.3-basic"), "--level", "quick", "--as-broker", "5.3.3", "--format", form
    )
    assert ended.err == ""
    assert "Healthy" not in ended.out


def test_check_lives_with_a_start_that_cannot_be_predicted(
    cli: Cli, store_dir: Directory, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("enableDLegerCommitLog=true\n")
    store = store_dir("5.3.3-basic")
    ended = cli("check", store, "--level", "quick", "--broker-conf", conf, "--as-broker", "5.3.3")
    assert ended.code != 8
    assert "cannot be predicted" in ended.out
    form = ("--broker-conf", conf, "--format", "json")
    verdict = json.loads(cli("check", store, "--level", "quick", "--as-broker", "5.3.3", *form).out)[
        "verdict"
    ]
    assert (verdict["state"], verdict["may_start"]) == ("unknown", None)
    assert [start["covered"] for start in verdict["starts"]] == [False]
    assert cli("check", store, "--as-broker", "tomorrow").code == 16


def test_what_is_not_covered_has_a_status_and_a_document(
    cli: Cli, real_dir: Directory, tmp_path: Path
) -> None:
    store, conf = real_dir("5.5.0-dledger"), tmp_path / "broker.conf"
    conf.write_text("enableDLegerCommitLog=true\ndLegerSelfId=n1\n")
    ended = cli("simulate", store, "--as-broker", "5.3.3", "--broker-conf", conf)
    assert (ended.code, ended.out) == (8, "")
    assert "the start cannot be predicted: broker.conf names the node n1" in ended.err
    ended = cli("simulate", store, "--as-broker", "5.3.3", "--broker-conf", conf, "--format", "json")
    document = json.loads(ended.out)
    assert (ended.code, document["harmful"]) == (8, None)
    (start,) = document["starts"]
    assert (start["covered"], start["harmful"]) == (False, None)
    assert start["not_covered"] == ["broker.conf names the node n1, but the store has dledger-n0"]
    (covered,) = json.loads(cli("simulate", store, "--as-broker", "4.4.0", "--format", "json").out)["starts"]
    assert (covered["covered"], covered["not_covered"]) == (True, [])


def test_what_was_lost_before_the_start_is_said(cli: Cli, restart_dir: Directory) -> None:
    ended = cli("simulate", restart_dir("4.4.0-multiseg--missing-middle-commitlog"), "--as-broker", "4.4.0")
    assert ended.code == 4
    assert "loses nothing more; 152 messages cannot be read" in ended.out
    assert "  196608 to 262144: 152 units" in ended.out


def test_check_ranks_by_what_a_start_makes_worse(cli: Cli, restart_dir: Directory) -> None:
    store = restart_dir(FLIPPED)
    plain = json.loads(cli("check", store, "--format", "json").out)["diagnoses"]
    document = json.loads(cli("check", store, "--as-broker", "4.9.8", "--format", "json").out)
    classes = [item["fault_class"] for item in document["diagnoses"]]
    urgent = document["verdict"]["urgent"]
    assert urgent
    assert classes[: len(urgent)] == urgent == ["C4"]
    assert sorted(classes) == sorted(item["fault_class"] for item in plain)


def test_what_a_start_leaves_alone_is_not_urgent(cli: Cli, store_dir: Directory) -> None:
    document = json.loads(
        cli("check", store_dir("5.3.3-basic"), "--as-broker", "5.3.3", "--format", "json").out
    )
    assert document["verdict"]["urgent"] == []
