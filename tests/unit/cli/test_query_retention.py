"""`rocketfsck query retention`."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli
from tests.unit.query.maker import make, message


def test_the_command(cli: Cli, tmp_path: Path, store_dir: Directory) -> None:
    config = {"consumerOffset.json": {"offsetTable": {"Order@slow": {0: 2}, "Order@quick": {0: 79}}}}
    root = make(tmp_path, [message(number) for number in range(80)], config=config).root
    ran = cli("query", "retention", root, "--as-of", "2023-11-15")
    assert ran.code == 0 and "deleted before they are consumed" in ran.out and "stays" in ran.out
    assert "slow" in ran.out and "quick" not in ran.out
    assert cli("query", "retention", root, "--time-zone", "No/Where").code == 16
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable": 7}')
    ran = cli("query", "retention", root)
    assert ran.code == 8 and "no groups" in ran.out and "stays" in ran.out
    ran = cli("query", "retention", store_dir("5.3.3-basic"))
    assert ran.code == 4 and "a broker keeps the last one" in ran.out and "growth: unknown" in ran.out


def test_tables_have_all_rows(cli: Cli, store_dir: Directory) -> None:
    arguments = ("query", "retention", store_dir("4.9.8-expired"), "--format")
    rows = cli(*arguments, "jsonl").rows()[1:]
    assert {row["kind"] for row in rows} == {"file", "disk"}
    ran = cli(*arguments, "csv")
    assert ran.code == 0 and len(ran.out.splitlines()) == 1 + len(rows)
    assert ran.out.startswith("kind,file,file_b64,start_offset,size,first_timestamp,expires_timestamp,")


def test_times_without_a_date_are_taken(cli: Cli, store_dir: Directory) -> None:
    for as_of in ("9999-12-31", str((1 << 63) - 1), "-5"):
        ran = cli(
            "query",
            "retention",
            store_dir("4.9.8-expired"),
            f"--as-of={as_of}",
            "--time-zone=Pacific/Kiritimati",
        )
        assert ran.code == 0 and "stays" in ran.out
