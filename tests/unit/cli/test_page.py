"""`check --report` and `page`: pages of stores, of reports and of fleets."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Directory
from tests.pagesamples import damaged_copy
from tests.unit.cli.conftest import Cli

STORE, OTHER = "5.3.3-multiseg", "4.9.8-basic"


@pytest.fixture
def damaged(store_dir: Directory, tmp_path: Path) -> Path:
    return damaged_copy(store_dir(STORE), tmp_path / "store")


def data(cli: Cli, target: Path, *arguments: object) -> Any:
    """The data of a page that a command writes."""
    ended = cli(*arguments, target)
    assert ended.code in (0, 4), ended.err
    return json.loads(target.read_text("utf-8"))


def test_a_check_writes_a_page_beside_its_output(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    plain = cli("check", damaged, "--quiet")
    page = tmp_path / "page.html"
    with_page = cli("check", damaged, "--quiet", "--report", page)
    assert (with_page.code, with_page.out) == (plain.code, plain.out)
    text = page.read_text("utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert "rocketfsck.page" in text
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_no_page_is_written_into_the_store(cli: Cli, damaged: Path) -> None:
    before = sorted(damaged.rglob("*"))
    later = ("page", damaged / "checkpoint", "--store", damaged, "-o")
    for command in (("check", damaged, "--report"), later):
        ended = cli(*command, damaged / "page.html")
        assert ended.code == 16
        assert "is inside the store" in ended.err
    assert sorted(damaged.rglob("*")) == before


def test_a_page_is_not_masked(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    ended = cli("check", damaged, "--mask", "--report", tmp_path / "page.html")
    assert ended.code == 16
    assert "--mask is not for --report" in ended.err
    assert not (tmp_path / "page.html").exists()


def test_the_verdict_is_word_for_word(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    page = data(cli, tmp_path / "page.json", "check", damaged, "--quiet", "--report")
    count = len(page["lines"])
    printed = cli("check", damaged).out.splitlines()
    assert page["lines"] == [
        re.sub(r"; level full, [0-9.]+ s$", "; level full", line) for line in printed[:count]
    ]
    assert printed[count] == ""


def test_a_page_of_data_is_the_page_of_the_check(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    first = data(cli, tmp_path / "page.json", "check", damaged, "--report")
    again = data(cli, tmp_path / "again.json", "page", tmp_path / "page.json", "-o")
    assert again == first


def test_a_report_with_its_store_gives_the_same_page(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    said = tmp_path / "report.json"
    cli("check", damaged, "--format", "json", "-o", said)
    page = data(cli, tmp_path / "a.json", "page", said, "--store", damaged, "-o")
    checked = data(cli, tmp_path / "b.json", "check", damaged, "--report")
    for part in ("lines", "starts", "map", "windows", "timeline", "topics", "positions", "indexes", "plan"):
        assert page[part] == checked[part], part
    assert page["findings"] == checked["findings"]
    assert page["left_out"] == []


def test_a_report_alone_says_what_is_missing(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    said = tmp_path / "report.json"
    cli("check", damaged, "--format", "json", "-o", said)
    shutil.rmtree(damaged)
    page = data(cli, tmp_path / "a.json", "page", said, "-o")
    left_out = {item["what"] for item in page["left_out"]}
    assert left_out == {"map.spans", "windows", "timeline", "positions", "indexes", "plan", "retention"}
    assert page["timeline"] is None
    assert page["indexes"] is None
    assert page["plan"] is None
    assert page["map"]["is_walked"] is False
    assert page["findings"]["kept_count"] == page["findings"]["listed_count"] > 10
    assert sum(page["map"]["totals"]["byte_count"]) == 6 * 131_072
    assert page["lines"][0].startswith("Do not start a broker")


def _ends(page: Any) -> list[int]:
    return [end for end in page["queues"]["max_offset"] if end is not None]


def test_a_check_of_a_part_shows_all_queues(cli: Cli, damaged: Path, tmp_path: Path) -> None:
    whole = data(cli, tmp_path / "a.json", "check", damaged, "--report")
    part = data(cli, tmp_path / "b.json", "check", damaged, "--level", "quick", "--report")
    # The plan of the whole check makes one more queue: it has no end yet.
    assert _ends(part) == _ends(whole) and len(_ends(part)) > 4
    assert part["map"]["spans"] == whole["map"]["spans"]
    assert part["level"] == "quick"


def test_another_store_is_refused(cli: Cli, damaged: Path, store_dir: Directory, tmp_path: Path) -> None:
    said = tmp_path / "report.json"
    cli("check", damaged, "--format", "json", "-o", said)
    ended = cli("page", said, "--store", store_dir(OTHER))
    assert ended.code == 16
    assert "the report is about " in ended.err and "check it again with --report" in ended.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"kind":"rocketfsck.page"}',
        '{"kind":"rocketfsck.page.fleet","stores":7}',
        '{"kind":"rocketfsck.check.stores","rows":[{}]}',
        '{"kind":"rocketfsck.check.stores","rows":7}',
        '{"kind":"rocketfsck.check.stores","rows":[7]}',
    ],
)
def test_what_is_no_report_is_refused(cli: Cli, text: str, tmp_path: Path) -> None:
    said = tmp_path / "report.json"
    said.write_text(text, "utf-8")
    ended = cli("page", said)
    assert ended.code == 16, ended
    assert ended.out == ""
    assert "Internal" not in ended.err


def test_a_table_that_is_no_parquet_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert cli("page", tmp_path / "a.parquet").code == 8
    assert cli("page", tmp_path).code == 16


def test_pages_of_a_fleet(cli: Cli, damaged: Path, store_dir: Directory, tmp_path: Path) -> None:
    stores = (damaged, store_dir(STORE), store_dir(OTHER))
    checked = data(cli, tmp_path / "a.json", "check", *stores, "--tables", tmp_path / "tables", "--report")
    assert checked["kind"] == "rocketfsck.page.fleet"
    assert checked["store_counts"] == {"count": 3, "kept_count": 3}
    assert checked["stores"]["state"][0] == "harmful"
    assert checked["stores"]["root"][0] == str(damaged)
    rules = checked["rules"]
    assert (0, "CL001") in list(zip(rules["store"], rules["rule"], strict=True))
    checked = checked | {"groups": []}  # tables have none
    assert data(cli, tmp_path / "b.json", "page", tmp_path / "tables", "-o") == checked
    (run,) = (tmp_path / "tables" / "stores").iterdir()
    assert data(cli, tmp_path / "c.json", "page", run, "-o") == checked
    said = tmp_path / "stores.json"
    cli("check", *stores, "--format", "json", "-o", said)
    of_json = data(cli, tmp_path / "d.json", "page", said, "-o")
    assert of_json["rules"] is None
    assert of_json["stores"]["state"] == checked["stores"]["state"]
    assert cli("page", said, "--store", damaged).code == 16


def test_names_that_are_no_utf8_are_text(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir(STORE), tmp_path / "odd\udcff\u202e"))
    shutil.copytree(next((root / "consumequeue").iterdir()), root / "consumequeue" / "<b>topic\udcff")
    page = data(cli, tmp_path / "page.json", "check", root, "--report")
    text = json.dumps(page, ensure_ascii=False)
    assert text.isprintable()
    assert "_b64" not in text
    assert "<b>topic\\udcff" in page["topics"]["topic"]
    html = tmp_path / "page.html"
    cli("check", root, "--report", html)
    assert "<b>topic" not in html.read_text("utf-8")
    fleet = data(cli, tmp_path / "fleet.json", "check", root, store_dir(OTHER), "--report")
    assert json.dumps(fleet, ensure_ascii=False).isprintable()
