"""Stores behind URLs: what is not looked at is not fetched, and all that reads works as on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.browse.model.files import FilePlace, Shelf
from rocketfsck.cli.browse.model.findings import check_command
from rocketfsck.store import open_store
from rocketfsck.store.places.blocks import Blocks
from rocketfsck.store.places.remote import RemoteFile
from rocketfsck.store.places.urls import StorageOptions, option_words, read_options

from tests.conftest import Directory
from tests.s3 import files_of, s3_client, s3_server
from tests.unit.cli.browse.pilot import Driver, drive
from tests.unit.cli.browse.stores import record_bytes
from tests.unit.cli.conftest import Cli

# aiohttp's and botocore's own, in sessions that fsspec closes at the end of the process
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning:(aio)?botocore.*")]

MIB = 1 << 20
FILE_SIZE = 3 * MIB
FILES = 8

Put = Callable[[Path, str], str]
Cost = Callable[[], int]


@pytest.fixture(scope="module")
def put() -> Iterator[Put]:
    """Copies a directory into a bucket, and gives its URL."""
    with s3_server() as endpoint:
        client = s3_client(endpoint)

        def copy(root: Path, name: str) -> str:
            for relative, data in files_of(root).items():
                client.put_object(Bucket="bucket", Key=f"{name}/{relative}", Body=data)
            return f"s3://bucket/{name}"

        yield copy


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Gives the bytes that were fetched since the last call; nothing of former tests is in memory."""
    real, fetched = RemoteFile.fetch, [0]
    monkeypatch.setattr("rocketfsck.store.places.blocks._shared", Blocks())

    def counted(file: RemoteFile, start: int, end: int) -> bytes:
        fetched[0] += end - start
        return real(file, start, end)

    def since() -> int:
        count, fetched[0] = fetched[0], 0
        return count

    monkeypatch.setattr(RemoteFile, "fetch", counted)
    return since


def _full_store(root: Path) -> None:
    """A commit log of eight files of 3 MiB, full of records."""
    log = root / "commitlog"
    log.mkdir(parents=True)
    body = bytes(100_000)
    for number in range(FILES):
        base, data = number * FILE_SIZE, b""
        while len(data) + len(body) + 200 < FILE_SIZE:
            data += record_bytes(base + len(data), number * 100 + len(data) // len(body), body=body)
        (log / f"{base:020}").write_bytes(data.ljust(FILE_SIZE, b"\0"))


def test_what_is_not_looked_at_is_not_fetched(put: Put, cost: Cost, tmp_path: Path) -> None:
    _full_store(tmp_path / "store")
    url = put(tmp_path / "store", "full/store")

    async def script(at: Driver) -> None:
        assert f"{FILES} files, 24.0 MiB" in at.lines[0]
        assert 0 < cost() <= 2 * FILE_SIZE + MIB  # the first records of the first file and of the last
        await at.press("down", "down")
        assert cost() == 0
        await at.press("enter")
        assert f"commitlog/{2 * FILE_SIZE:020}" in at.lines[0]
        assert at.cursor.split()[1] == "0"
        assert 0 < cost() <= FILE_SIZE + 2 * MIB
        await at.press("g")
        await at.type(str(6 * FILE_SIZE))
        assert f"commitlog/{6 * FILE_SIZE:020}" in at.lines[0]
        assert cost() <= FILE_SIZE + 2 * MIB

    drive(url, script)


def test_a_store_behind_a_url_is_browsed_and_checked(put: Put, restart_dir: Directory) -> None:
    url = put(restart_dir("5.1.3-basic--flip-last-file"), "flipped/store")

    async def script(at: Driver) -> None:
        await at.press("enter", "enter")
        assert "This row leads to" in at.text
        await at.press("enter")
        assert at.lines[0].startswith(" consumequeue/")
        await at.press("enter")
        assert at.lines[0].startswith(" commitlog/")
        await at.press("c")
        assert "Checked: " in at.text
        await at.press("f", "enter")
        assert "E CL004" in at.text
        await at.press("p")
        assert "a repair needs a directory on this machine, not a URL" in at.text.replace("\n", " ")
        assert "Repairs that answer" not in at.text

    drive(url, script, size=(140, 30))


def test_a_check_is_told_what_browse_was_told() -> None:
    stated = read_options(
        ["endpoint_url=http://127.0.0.1:9", "secret=12", "anon=true", 'client_kwargs={"a": 1}']
    )
    words = option_words(StorageOptions(stated))
    assert read_options(words) == stated
    text = StorageOptions({"profile": "17"})
    assert read_options(option_words(text)) == text.values()


def test_the_command_line_of_a_check_has_the_options() -> None:
    fsspec = pytest.importorskip("fsspec")
    system: Any = fsspec.filesystem("memory")
    system.pipe_file("/told/commitlog/00000000000000000000", record_bytes(0, 0))
    store = open_store("memory://told", storage_options={"use_listings_cache": False})
    words = check_command(store, "quick", Path("report.json"))
    assert words[words.index("--storage-option") + 1] == "use_listings_cache=false"
    assert words[-1] == "memory://told"
    assert words.count("--storage-option") == 1
    assert Shelf(store).at("commitlog", 3) == FilePlace("commitlog/00000000000000000000", 3)
    system.rm("/told", recursive=True)


@pytest.mark.usefixtures("put")
def test_a_url_without_a_store_is_a_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.cli.commands.browse.is_terminal", lambda: True)
    ended = cli("browse", "s3://bucket/nothing")
    assert ended.code == 8
    assert len(ended.err.splitlines()) == 1
    assert "s3://bucket/nothing" in ended.err
