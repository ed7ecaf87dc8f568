"""`rocketfsck write`: inputs, seeds, options, refusals, and that nothing is left of what failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.paramtypes import QUANTITIES
from rocketfsck.commands.learn import StoreShape
from rocketfsck.errors import UsageError
from rocketfsck.store import open_store
from rocketfsck.writer import EndState

from tests.unit.cli.conftest import Cli

SMALL = ("--commitlog-file-size", "64KiB", "--consumequeue-file-size", 2000, "--slots", 50, "--entries", 300)
PROGRAM = [sys.executable, "-c", "from rocketfsck.cli import main; main()"]


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text('{"topic": "A", "body": "x", "keys": ["k"]}\n' * 5)
    return path


def test_from_lines(cli: Cli, tmp_path: Path, messages: Path) -> None:
    ended = cli("write", "--into", tmp_path / "store", messages, *SMALL, "--broker-version", "4.9.8")
    assert (ended.code, ended.err) == (0, "")
    assert "5 messages, 5 records" in ended.out
    assert "as 4.9.8" in ended.out
    assert f"  {tmp_path}/store.manifest.json\n" in ended.out
    assert ended.out.endswith(f"Next: rocketfsck check {tmp_path}/store\n")
    assert cli("check", tmp_path / "store").code == 0
    document = json.loads((tmp_path / "store.manifest.json").read_text())
    assert document["source"] == {"input": "in.jsonl"}
    assert document["checkpoint"]["physic_msg_timestamp"] == 1_704_067_200_004


def test_what_was_dumped_is_written_again(cli: Cli, tmp_path: Path) -> None:
    assert cli("write", "--into", tmp_path / "a", "--synth", "everything", "--messages", 60, *SMALL).code == 0
    for output_format in ("jsonl", "parquet"):
        dumped = tmp_path / f"dump.{output_format}"
        arguments = ("--kind", "commitlog", "--body", "base64", "--format", output_format, "-o", dumped)
        assert cli("dump", tmp_path / "a", *arguments).code == 0
        target = tmp_path / output_format
        options = ("--batch-topic", "SynthBatch", "--multi-dispatch", *SMALL)
        ended = cli("write", "--into", target, dumped, *options)
        assert ended.code == 0, ended.err
        assert cli("check", target).code == 0


def test_from_a_seed(cli: Cli, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        ended = cli("write", "--into", tmp_path / name, "--synth", "--seed", seed, "--size", "100KiB", *SMALL)
        assert ended.code == 0, ended.err
    first, second, third = ((tmp_path / f"{name}.manifest.json").read_text() for name in "abc")
    assert first == second
    assert json.loads(first)["files"] != json.loads(third)["files"]
    assert json.loads(first)["source"]["size"] == 102_400


def test_options_shape_the_store(cli: Cli, tmp_path: Path) -> None:
    ended = cli(
        "write", "--into", tmp_path / "s", "--synth", "mixed", "--messages", 50, *SMALL,
        "--end-state", "killed",
        "--start-offset", "128KiB", "--consumequeue-ext", "--ext-file-size", 1000, "--property-crc",
        "--no-sync",
        "--time-zone", "Asia/Shanghai", "--start-time", "2024-05-01T00:00:00", "--manifest", "full",
        "--manifest-file", tmp_path / "truth.json",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    store = open_store(tmp_path / "s")
    assert store.abort is not None
    assert store.commitlog.files[0].start_offset == 131_072
    assert store.ext_queues
    assert store.indexes[0].name.startswith("20240501080000")
    assert (tmp_path / "truth.messages.jsonl").exists()
    found = cli("write", "--into", tmp_path / "t", "--synth", *SMALL, "--no-index", "--manifest", "none")
    assert found.out.count("\n") == 2
    assert not (tmp_path / "t" / "index").exists()


def test_broker_conf_and_what_goes_over_it(cli: Cli, tmp_path: Path, messages: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=8192\nmaxHashSlotNum=9\nmaxIndexNum=100\nenabledAppendPropCRC=true\n"
    )
    ended = cli("write", "--into", tmp_path / "s", messages, "--broker-conf", conf, "--slots", 8)
    assert ended.code == 0, ended.err
    options = json.loads((tmp_path / "s.manifest.json").read_text())["options"]
    assert (options["commitlog_file_size"], options["slot_count"], options["entry_count"]) == (8192, 8, 100)
    assert options["append_property_crc"]
    assert cli("write", "--into", tmp_path / "t", messages, "--broker-conf", tmp_path / "none").code == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either INPUT or --synth"),
        (("in.jsonl", "--synth", "plain"), "give either INPUT or --synth"),
        (("in.jsonl", "--seed", "3"), "are for --synth"),
        (("in.jsonl", "--size", "3"), "are for --synth"),
        (("--synth", "colour=1"), "is not one of"),
        (("--synth", "plain", "--size", "3 apples"), "is not a size"),
        (("--synth", "plain", "--messages", "-1"), "is not in the range"),
        (("--synth", "plain", "--broker-version", "3.0.0"), "is not a known broker version"),
        (
            ("--synth", "plain", "--broker-version", "4.0.0", "--property-crc"),
            "does not have the property CRC",
        ),
        (("--synth", "plain", "--slots", "0"), "is not in the range x>=1"),
        (("--synth", "plain", "--time-zone", "Mars/Base"), "not a known time zone"),
        (("--synth", "plain", "--start-time", "-5"), "start time"),
    ],
)
def test_usage(cli: Cli, tmp_path: Path, messages: Path, arguments: tuple[str, ...], said: str) -> None:
    given = [messages if argument == "in.jsonl" else argument for argument in arguments]
    ended = cli("write", "--into", tmp_path / "store", *given)
    assert (ended.code, ended.out) == (16, "")
    assert said in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_existing_places_are_refused(cli: Cli, tmp_path: Path, messages: Path) -> None:
    (tmp_path / "store").mkdir()
    ended = cli("write", "--into", tmp_path / "store", messages)
    assert ended.code == 16
    assert "exists, and rocketfsck does not overwrite it" in ended.err
    assert not list((tmp_path / "store").iterdir())
    assert cli("write", "--into", tmp_path / "no" / "store", messages).code == 8
    assert cli("write", "--into", tmp_path / "other", tmp_path / "none").code == 8


def test_a_bad_line_is_named_and_nothing_is_left(cli: Cli, tmp_path: Path, messages: Path) -> None:
    with messages.open("a") as file:
        file.write('{"topic": "A", "body_b64": "?"}\n')
    ended = cli("write", "--into", tmp_path / "store", messages, "--manifest", "full")
    assert ended.code == 16
    assert f"Error: {messages}, line 6: body_b64: not base64" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, b"Cancelled."), (signal.SIGTERM, b"Terminated."), (signal.SIGHUP, b"Terminated.")],
)
def test_interrupted_and_terminated_leave_nothing(
    tmp_path: Path, number: signal.Signals, said: bytes
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever started the tests wants the signal ignored (nohup)")
    command = [*PROGRAM, "write", "--into", str(tmp_path / "store"), "-", *map(str, SMALL)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'{"topic": "A"}\n' * 5)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not any(tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(60) == 32
        assert process.stderr.read().strip() == said
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path) -> None:
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000));"
        "from rocketfsck.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "write", "--into", str(tmp_path / "store"), "--synth", "body=10"]
    ended = subprocess.run([*command, *map(str, SMALL)], capture_output=True, text=True, check=False)
    assert ended.returncode == 8
    assert "cannot write the store: File too large" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_sizes() -> None:
    size = QUANTITIES["size"]
    for text, value in (("7", 7), ("1K", 1024), ("2KiB", 2048), ("3kb", 3000), ("4GiB", 4 << 30), ("5 B", 5)):
        assert size.convert(text, None, None) == value
    assert size.convert(9, None, None) == 9


def test_options_without_a_command_line(tmp_path: Path) -> None:
    shape = StoreShape(batch_topic=("B",), no_sync=True, no_index=True, multi_dispatch=True)
    options = shape.options()
    assert (options.end_state, options.message_index, options.sync) == (EndState.CLEAN, False, False)
    assert options.batch_topics == {"B"}
    conf = tmp_path / "broker.conf"
    conf.write_text("maxMessageSize=many\n")
    with pytest.raises(UsageError, match="maxMessageSize is 'many'"):
        replace(shape, broker_conf=conf).options()
