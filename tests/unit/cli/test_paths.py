"""One rule for what a path means, in every command that reads many stores, here and at URLs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from rocketfsck.errors import StoreError
from rocketfsck.store.areas import list_directory

from tests.conftest import NIGHTLY, Directory
from tests.s3 import files_of, s3_client, s3_server
from tests.unit.cli.conftest import Cli

SOUND = "5.3.3-basic"
MISSING = ("none", "none-*")


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of a bucket, in which `fleet` is put once."""
    pytest.importorskip("s3fs")
    with s3_server() as url:
        s3_client(url)
        yield url


@pytest.fixture(params=["here", "s3"])
def fleet(request: pytest.FixtureRequest, store_dir: Directory, tmp_path: Path) -> str:
    """A directory with the stores a/store and b, and what is not a store; its path, or its URL."""
    root = tmp_path / "fleet"
    shutil.copytree(store_dir(SOUND), root / "a" / "store")
    shutil.copytree(store_dir(SOUND), root / "b")
    (root / "notes" / "deep").mkdir(parents=True)
    (root / "notes" / "deep" / "text").write_text("x")
    shutil.copytree(store_dir(SOUND) / "commitlog", root / ".hidden" / "commitlog")
    if request.param == "here":
        return str(root)
    client = s3_client(request.getfixturevalue("bucket"))
    for name, data in files_of(root).items():
        client.put_object(Bucket="bucket", Key=f"fleet/{name}", Body=data)
    return "s3://bucket/fleet"


def checked(cli: Cli, *paths: str) -> tuple[list[str], list[str]]:
    ended = cli("check", *paths, "--level", "quick", "--format", "json")
    rows = json.loads(ended.out)["rows"]
    failed = [row["broker"] for row in rows if row["state"] == "failed"]
    assert ended.code & 8 == (8 if failed else 0)
    return [row["broker"] for row in rows if row["state"] != "failed"], failed


def counted(cli: Cli, *paths: str) -> tuple[list[str], list[str]]:
    ended = cli("count", *paths, "--by", "broker", "--format", "json")
    said = json.loads(ended.out)
    failed = [store["broker"] for store in said["failed"]]
    assert ended.code == (8 if failed else 0)
    return [row["broker"] for row in said["rows"]], failed


@pytest.mark.parametrize("command", [checked, counted])
def test_what_a_path_means(command: type, cli: Cli, fleet: str) -> None:
    both = ["a", "b"]
    assert command(cli, fleet, f"{fleet}/a/store") == (both, [])
    assert command(cli, f"{fleet}/a/stor?", f"{fleet}/none") == (["a"], ["none"])
    assert command(cli, f"{fleet}/*") == (both, ["notes"])  # whoever names it means it
    if fleet.startswith("s3:") and not NIGHTLY:
        return  # a request to the store of these tests takes as long as a check
    assert command(cli, fleet) == (both, [])
    assert command(cli, f"{fleet}/[ab]") == (both, [])
    assert command(cli, f"{fleet}/a", f"{fleet}/b") == (both, [])
    assert command(cli, f"{fleet}/*/store") == (["a"], [])
    assert command(cli, fleet, f"{fleet}/none-*") == (both, ["none-*"])
    assert command(cli, f"{fleet}/none-*") == ([], ["none-*"])


def test_one_store_of_a_directory_is_one_store(cli: Cli, fleet: str) -> None:
    for path in (f"{fleet}/a", f"{fleet}/a/store", f"{fleet}/b"):
        ended = cli("check", path, "--level", "quick", "--format", "json")
        assert json.loads(ended.out)["verdict"]["state"] == "partial", path
    assert cli("compare", f"{fleet}/a", f"{fleet}/b").code == 0
    ended = cli("compare", fleet, f"{fleet}/b")
    assert ended.code == 16
    assert "means 2 stores" in ended.err
    for command in ("check", "count", "compare"):
        paths = [f"{fleet}/none"] * (2 if command == "compare" else 1)
        assert cli(command, *paths).code == 8, command


def test_export_and_rebuild(cli: Cli, fleet: str, tmp_path: Path) -> None:
    ended = cli("export", fleet, f"{fleet}/none-*", "--into", tmp_path / "table", "--format", "json")
    assert ended.code == 8
    assert [store["broker"] for store in json.loads(ended.out)["failed"]] == ["none-*"]
    table = ds.dataset(tmp_path / "table", partitioning="hive").to_table(columns=["broker"])
    assert set(table.column("broker").to_pylist()) == {"a", "b"}
    ended = cli(
        "rebuild", "index", fleet, f"{fleet}/none-*", "--into", tmp_path / "built", "--format", "json"
    )
    assert ended.code == 8
    assert [(row["broker"], row["state"]) for row in json.loads(ended.out)["rows"]] == [
        ("a", "rebuilt"),
        ("b", "rebuilt"),
        ("none-*", "failed"),
    ]


def test_a_directory_that_cannot_be_listed_is_a_row(
    cli: Cli, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "a")
    for name in ("b", "lost+found", "a.before-1"):
        (tmp_path / "fleet" / name).mkdir()
    (tmp_path / "fleet" / "a.before-1" / "journal.json").touch()
    (tmp_path / "fleet" / "a.before-1" / "commitlog").mkdir()

    def listed(path: Path) -> object:
        if Path(path).name in ("b", "lost+found"):
            raise StoreError("cannot be listed: Permission denied", path=str(path))
        return list_directory(path)

    monkeypatch.setattr("rocketfsck.pipeline.sources.list_directory", listed)
    ended = cli("check", tmp_path / "fleet", "--level", "quick", "--format", "json")
    rows = json.loads(ended.out)["rows"]
    assert [(row["broker"], row["state"] == "failed") for row in rows] == [("a", False), ("b", True)]


def test_a_relative_path_for_a_cluster_is_refused_before_a_session(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(*_args: object, **_options: object) -> object:
        raise AssertionError("a session was opened")

    monkeypatch.setattr("rocketfsck.engine.spark.open_session", session)
    for command in (["check"], ["count"], ["rebuild", "index", "--into", "/tmp/x"]):
        ended = cli(*command, "a", "b-*", "--engine", "spark", "--master", "spark://none:7077")
        assert ended.code == 16
        assert "give the absolute path" in ended.err


def test_states_and_stores_at_urls(cli: Cli, store_dir: Directory, bucket: str) -> None:
    """What has the same ETag is taken over; what was replaced is read again."""
    client = s3_client(bucket)
    store = store_dir("4.9.8-multiseg")
    for name, data in files_of(store).items():
        client.put_object(Bucket="bucket", Key=f"kept/a/store/{name}", Body=data)

    def night(*since: str) -> dict[str, int]:
        ended = cli("check", "s3://bucket/kept", *since, "--format", "json")
        assert (ended.code, ended.err) == (0, "")
        [row] = json.loads(ended.out)["rows"]
        return {name: row[name] for name in ("taken_over_byte_count", "info_count", "checked_byte_count")}

    since = ("--since", "s3://bucket/states", "--scrub", "7d")
    plain, first, second = night(), night(*since), night(*since)
    assert plain == first
    assert second["taken_over_byte_count"] > first["taken_over_byte_count"] == 0
    assert {**second, "taken_over_byte_count": 0} == first
    name = min((store / "commitlog").iterdir()).name
    damaged = bytearray((store / "commitlog" / name).read_bytes())
    damaged[90] ^= 1
    client.put_object(Bucket="bucket", Key=f"kept/a/store/commitlog/{name}", Body=bytes(damaged))
    ended = cli("check", "s3://bucket/kept", *since, "--format", "json")
    [row] = json.loads(ended.out)["rows"]
    assert row["error_count"] > 0
    client.put_object(Bucket="bucket", Key="odd", Body=b"not a state")
    ended = cli("check", "s3://bucket/kept/a/store", "--since", "s3://bucket/odd")
    assert ended.code == 16
    assert "is not a state that check --since wrote" in ended.err
