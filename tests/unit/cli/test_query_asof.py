"""`rocketfsck query as-of`."""

from __future__ import annotations

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


def test_the_command(cli: Cli, store_dir: Directory) -> None:
    root = store_dir("4.9.8-delay")
    ran = cli("query", "as-of", root, "2100-01-01")
    assert ran.code == 0 and "nothing was stored later" in ran.out and "Dly" in ran.out
    ran = cli("query", "as-of", root, "2000-01-01")
    assert ran.code == 4 and "no message of then" in ran.out and "the next message was stored" in ran.out
    rows = cli("query", "as-of", root, "2100-01-01", "--format", "jsonl").rows()
    assert {row["topic"] for row in rows[1:]} == {"Dly", "SCHEDULE_TOPIC_XXXX"}
    ran = cli("query", "as-of", root, "2100-01-01", "--format", "csv", "--topic", "Dly", "--mask")
    assert ran.code == 0 and len(ran.out.splitlines()) == 3 and "Dly" not in ran.out
    assert cli("query", "as-of", root, "yesterday").code == 16
