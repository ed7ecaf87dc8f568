"""Stores behind URLs give what the same directories give: on an S3-compatible server, in fsspec's memory."""

from __future__ import annotations

import errno
import json
import pickle
import re
import subprocess
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import check_store, iter_messages
from rocketfsck.cli.app import run
from rocketfsck.errors import (
    EXIT_OPERATIONAL,
    EXIT_USAGE,
    PassingError,
    StoreError,
    UsageError,
    attempt,
    may_pass,
)
from rocketfsck.store import Store, identify_file, open_store
from rocketfsck.store.circumstances import LockState
from rocketfsck.store.model import StrayReason
from rocketfsck.store.places import remote
from rocketfsck.store.places.locations import locate
from rocketfsck.store.places.urls import Location, StorageOptions, is_remote, options_for
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.options import CheckOptions

from tests.conftest import Directory
from tests.s3 import KEY, SECRET, files_of, s3_client, s3_server

fsspec = pytest.importorskip("fsspec")

# aiohttp's and botocore's own, in sessions that fsspec closes at the end of the process
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning:(aio)?botocore.*")]

NAMES = ["4.9.8-cqext", "5.0.0-innerbatch", "5.3.3-multiseg", "5.1.3-basic"]

DIFFERENT = ("ST031", "ST040")
"""Whether a broker runs cannot be seen, and a copy has times of its own."""

Put = Callable[[Path], str]
Lines = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    with s3_server() as endpoint:
        yield endpoint, s3_client(endpoint)


@pytest.fixture(scope="module")
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def put_in_memory(system: Any, root: Path) -> str:
    name = uuid.uuid4().hex
    for relative, data in files_of(root).items():
        system.pipe_file(f"/{name}/{relative}", data)
    return f"memory://{name}"


def put_on_s3(client: Any, root: Path) -> str:
    name = f"brokers/{uuid.uuid4().hex}"
    for relative, data in files_of(root).items():
        client.put_object(Bucket="bucket", Key=f"{name}/{relative}", Body=data)
    return f"s3://bucket/{name}"


@pytest.fixture(scope="module", params=["memory", "s3"])
def put(request: pytest.FixtureRequest) -> Put:
    """Copies a directory to a remote file system and gives its URL."""
    if request.param == "memory":
        system = request.getfixturevalue("memory")
        return lambda root: put_in_memory(system, root)
    client = request.getfixturevalue("server")[1]
    return lambda root: put_on_s3(client, root)


@pytest.fixture(scope="module")
def put_there(memory: Any) -> Put:
    """The same, for what does not depend on the file system: to the one that is quick."""
    return lambda root: put_in_memory(memory, root)


@pytest.fixture(scope="module")
def kept(put: Put) -> Put:
    """The same, once for every directory: for tests that alter nothing there."""
    return cache(put)


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Runs a command line: exit status, standard output, standard error."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def findings(store: Store, level: Any, root: str) -> dict[str, Any]:
    """A report without what has to differ: the root, the clock, the lock, the files' times."""
    document = check_store(store, CheckOptions(level=level, jobs=2)).to_json()
    for name in ("started_timestamp", "seconds", "next_commands"):
        document.pop(name)
    for name in ("live", "live_known_from"):
        document["store"].pop(name)
    for rule in DIFFERENT:
        document["counts"].pop(rule, None)
    document["findings"] = [found for found in document["findings"] if found["rule"] not in DIFFERENT]
    if not is_remote(root):  # no plan is made of a store behind a URL, so none is suggested there
        for found in document["findings"]:
            found["suggest"] = [words for words in found["suggest"] if words[:2] != ["rocketfsck", "plan"]]
    text = json.dumps(document, sort_keys=True).replace(root, "ROOT")
    result: dict[str, Any] = json.loads(text)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_the_check_finds_the_same(name: str, kept: Put, store_dir: Directory) -> None:
    local = store_dir(name)
    url = kept(local)
    here, there = open_store(local), open_store(url)
    assert str(there.root) == url
    for level in ("quick", "cross", "full"):
        assert findings(there, level, url) == findings(here, level, str(local))
    assert [file.relative for file in there.all_files()] == [file.relative for file in here.all_files()]


def test_the_check_finds_the_same_damage(put: Put, store_copy: Callable[[str], Path]) -> None:
    root = store_copy("5.3.3-multiseg")
    segments = sorted((root / "commitlog").iterdir())
    data = bytearray(segments[0].read_bytes())
    data[1000:1100] = bytes(100)
    segments[0].write_bytes(data)
    segments[1].unlink()
    (root / "index" / "strange").write_bytes(b"?")
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "00000000000000000000").write_bytes(b"?")
    url = put(root)
    found = findings(open_store(url), "full", url)
    assert found == findings(open_store(root), "full", str(root))
    assert {"CL004", "ST010", "ST041"} <= set(found["counts"])


COMMANDS = [
    ["dump", "STORE", "--format", "jsonl", "--body", "base64"],
    ["dump", "STORE", "--kind", "all", "--limit", "500"],
    ["dump", "STORE/index", "--limit", "50"],
    ["dump", "STORE/commitlog/00000000000000000000", "--hex", "--limit", "2"],
    ["info", "STORE/checkpoint"],
    ["query", "scan", "STORE", "queue_id == 1", "--format", "jsonl"],
    ["query", "offsets", "STORE"],
    ["simulate", "STORE", "--as-broker", "5.3.3"],
    ["compare", "STORE", "LOCAL"],
    ["salvage", "STORE", "--dry-run"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_commands_that_read_say_the_same(
    words: list[str], kept: Put, lines: Lines, store_dir: Directory
) -> None:
    local = store_dir("5.1.3-basic")
    url = kept(local)

    def said(root: object) -> tuple[int, str]:
        given = [word.replace("STORE", str(root)).replace("LOCAL", str(local)) for word in words]
        code, out, err = lines(*given)
        assert not err
        assert out
        return code, re.sub(r" +", " ", out.replace(str(root), "ROOT").replace(str(local), "ROOT"))

    assert said(url) == said(local)


@pytest.mark.parametrize("name", NAMES[1:3])
def test_what_is_rebuilt_is_the_same(
    name: str, kept: Put, lines: Lines, store_dir: Directory, tmp_path: Path
) -> None:
    local = store_dir(name)
    for root, into in ((kept(local), tmp_path / "there"), (local, tmp_path / "here")):
        code, _, err = lines("rebuild", "all", root, "--into", into, "--no-sync")
        assert (code, err) == (0, "")
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert files_of(tmp_path / "here")


def test_results_of_several_stores_are_taken_over(
    put: Put, store_copy: Callable[[str], Path], lines: Lines, tmp_path: Path
) -> None:
    """By what a listing says of each object; one that was written again makes its store another."""
    local = store_copy("5.3.3-basic")
    urls = [put(local), put(local)]
    line = ["rebuild", "all", *urls, "--into", tmp_path / "built", "--no-sync", "--broker-version", "5.3.3"]
    for ending in ("", ", taken over"):
        code, out, _ = lines(*line)
        assert (code, out.count(" records, taken over\n")) == (0, 2 * bool(ending))
    with fsspec.open(f"{urls[1]}/config/topics.json", "wb") as file:
        file.write(b"{}")
    code, out, _ = lines(*line)
    assert (code, out.count(" records, taken over\n")) == (8, 1)
    assert "the store has changed since" in out


def test_what_is_salvaged_is_the_same(kept: Put, lines: Lines, store_dir: Directory, tmp_path: Path) -> None:
    local = store_dir("4.9.8-cqext")
    for root, into in ((kept(local), tmp_path / "there"), (local, tmp_path / "here")):
        code, _, err = lines("salvage", root, "--into", into)
        assert err == ""
        assert code in (0, 1)
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")


def test_the_lock_is_not_known(put_there: Put, store_copy: Callable[[str], Path]) -> None:
    root = store_copy("5.3.3-basic")
    live = open_store(put_there(root)).live
    assert (live.state, live.locked) == (LockState.UNKNOWN, None)
    (root / "lock").unlink()
    assert open_store(put_there(root)).live.state is LockState.ABSENT


def test_a_directory_of_segments_is_a_commitlog(kept: Put, store_dir: Directory) -> None:
    local = store_dir("5.3.3-multiseg")
    url = kept(local) + "/commitlog"
    here, there = open_store(local / "commitlog"), open_store(url)
    assert there.log_only
    assert [m.body for m in iter_messages(there)] == [m.body for m in iter_messages(here)]


def test_a_commitlog_elsewhere(put_there: Put, store_copy: Callable[[str], Path]) -> None:
    root = store_copy("5.3.3-multiseg")
    count = len(open_store(root).commitlog.files)
    (root / "commitlog").rename(root.parent / "log")
    store = open_store(put_there(root), commitlog_paths=[put_there(root.parent / "log")])
    assert len(store.commitlog.files) == count
    assert all(is_remote(file.location) for file in store.commitlog.files)


def test_paths_in_settings_are_not_looked_for_here(
    put_there: Put, store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    root = store_copy("5.3.3-multiseg")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={root / 'commitlog'}\n")
    url = put_there(root)
    store = open_store(url, broker_conf=conf)
    assert store.commitlog.locations == (f"{url}/commitlog",)
    assert "there is no such directory here" in [note.why for note in store.notes]


@pytest.mark.parametrize("command", [["plan"], ["undo"], ["damage", "--into", "x", "--fault", "C1"]])
def test_what_writes_into_a_store_refuses_a_url(command: list[str], lines: Lines) -> None:
    code, out, err = lines(command[0], "s3://bucket/store", *command[1:])
    assert (code, out) == (EXIT_USAGE, "")
    assert "needs a directory on this machine" in err


def test_results_are_not_written_to_urls(lines: Lines, store_dir: Directory) -> None:
    local = store_dir("5.3.3-basic")
    for words in (["rebuild", "all", local], ["salvage", local]):
        code, _, err = lines(*words, "--into", "s3://bucket/new")
        assert code == EXIT_USAGE
        assert "needs a directory on this machine" in err


def test_the_report_plans_no_repair_of_a_remote_store(
    put_there: Put, store_copy: Callable[[str], Path]
) -> None:
    root = store_copy("5.3.3-basic")
    (root / "checkpoint").write_bytes(bytes(4096))
    here, there = check_store(open_store(root)), check_store(open_store(put_there(root)))
    assert any(" plan " in command for command in here.next_commands)
    assert not any(" plan " in command for command in there.next_commands)


def test_names_that_no_file_can_have(server: tuple[str, Any], store_dir: Directory) -> None:
    client = server[1]
    url = put_on_s3(client, store_dir("5.3.3-basic"))
    prefix = url.removeprefix("s3://bucket/")
    strange = [
        "index//20240101000000000",
        "consumequeue/../../abort",
        "consumequeue/T/./0",
        "config/\x1b[31m.json",
    ]
    for name in [*strange, "index/", "consumequeue/empty/"]:
        client.put_object(Bucket="bucket", Key=f"{prefix}/{name}", Body=b"")
    store = open_store(url)
    strays = {stray.relative: stray for stray in store.strays}
    assert strays["index/"].detail == "no file has this name"
    assert strays["consumequeue/.."].detail == "no file has this name"
    assert strays["config/\x1b[31m.json"].reason is StrayReason.UNKNOWN
    report = check_store(store)
    assert report.findings


# --- faults ---


def test_nothing_there(kept: Put, store_dir: Directory, lines: Lines) -> None:
    url = kept(store_dir("5.3.3-basic"))
    with pytest.raises(StoreError, match=r"nothing: cannot be listed: No such file, directory or bucket"):
        open_store(f"{url}-nothing")
    code, _, err = lines("check", f"{url}/checkpoint")
    assert code == EXIT_OPERATIONAL
    assert "is a file, not a store" in err


def test_no_such_bucket(server: tuple[str, Any], lines: Lines) -> None:
    assert server
    code, out, err = lines("info", "s3://no-such-bucket/store")
    assert (code, out) == (EXIT_OPERATIONAL, "")
    assert "s3://no-such-bucket/store: " in err
    assert "Traceback" not in err


def test_an_object_that_is_gone(put: Put, store_dir: Directory, request: pytest.FixtureRequest) -> None:
    url = put(store_dir("5.3.3-multiseg"))
    store = open_store(url)
    gone = store.commitlog.files[1]
    remove(request, gone.location)
    with FileReader(gone.path) as reader, pytest.raises(StoreError, match="No such file") as caught:
        reader.read(100, 20)
    assert (caught.value.path, caught.value.offset) == (gone.location, 0)
    with FileReader(gone.path) as reader, pytest.raises(StoreError, match="No such file") as caught:
        reader.read(300, 20)  # without a request
    assert caught.value.offset == 0
    report = check_store(store)
    assert report.exit_code & EXIT_OPERATIONAL
    assert any(gone.relative in item.what for item in report.not_checked)


def test_what_may_pass_is_asked_for_again_at_once(
    put_there: Put, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is tried again must not hear of the failure of the first attempt."""
    file = open_store(put_there(store_dir("5.3.3-basic"))).commitlog.files[0]
    with FileReader(file.path) as reader:
        whole = reader.read(0, 64)
    failures = [ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError("too late")]
    monkeypatch.setattr(remote, "_files", OrderedDict())
    fetch = remote.RemoteFile._fetch

    def failing(self: remote.RemoteFile, start: int, end: int) -> bytes:
        if failures:
            raise failures.pop()
        return fetch(self, start, end)

    monkeypatch.setattr(remote.RemoteFile, "_fetch", failing)
    found = remote.open_remote(file.location)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            found.fetch(0, 64)
        assert may_pass(caught.value)
    assert found.fetch(0, 64) == whole
    failures = [FileNotFoundError(errno.ENOENT, "gone"), TimeoutError("too late")]
    with attempt(is_last=False), pytest.raises(PassingError, match="no answer in time"):
        found.fetch(0, 64)
    with attempt(is_last=False), pytest.raises(StoreError, match="No such"):
        found.fetch(0, 64)


@pytest.mark.parametrize(("data", "text"), [(b"short", r"has 5 bytes|replaced"), (None, "replaced")])
def test_an_object_that_was_replaced(
    data: bytes | None, text: str, put: Put, store_dir: Directory, request: pytest.FixtureRequest
) -> None:
    url = put(store_dir("5.3.3-multiseg"))
    file = open_store(url).commitlog.files[1]
    before = FileReader(file.path)
    replace(request, file.location, bytes(file.size) if data is None else data)
    with pytest.raises(StoreError, match=text) as caught:
        before.read(0, 20)
    assert caught.value.path == file.location
    assert FileReader(str(file.location)).size == (file.size if data is None else len(data))


def test_what_was_read_is_of_one_version(
    put: Put, store_dir: Directory, request: pytest.FixtureRequest
) -> None:
    """A block that is here answers with what was listed, and an opening anew with what is there."""
    url = put(store_dir("5.3.3-basic"))
    file = open_store(url).commitlog.files[0]
    with FileReader(file.path) as reader:
        data = reader.read(0, 64)
    replace(request, file.location, bytes(file.size))
    with FileReader(file.path) as reader:
        assert reader.read(0, 64) == data
    with FileReader(open_store(url).commitlog.files[0].path) as reader:
        assert reader.read(0, 64) == bytes(64)


def remove(request: pytest.FixtureRequest, url: str) -> None:
    if url.startswith("memory"):
        fsspec.filesystem("memory").rm(url)
    else:
        client = request.getfixturevalue("server")[1]
        client.delete_object(Bucket="bucket", Key=url.removeprefix("s3://bucket/"))


def replace(request: pytest.FixtureRequest, url: str, data: bytes) -> None:
    if url.startswith("memory"):
        fsspec.filesystem("memory").pipe_file(url, data)
    else:
        client = request.getfixturevalue("server")[1]
        client.put_object(Bucket="bucket", Key=url.removeprefix("s3://bucket/"), Body=data)


def test_no_access_and_no_secrets(
    server: tuple[str, Any], lines: Lines, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused is said with the URL and without the keys."""
    from s3fs import S3FileSystem

    url = put_on_s3(server[1], store_dir("5.3.3-basic"))

    async def refuse(*_words: Any, **_named: Any) -> Any:
        raise PermissionError(f"Access Denied for {SECRET} of {KEY}\nsecond line")

    monkeypatch.setattr(S3FileSystem, "_call_s3", refuse)
    options = ["--storage-option", f"key={KEY}", "--storage-option", f"secret={SECRET}"]
    code, out, err = lines("check", url, *options, "--format", "json")
    assert code == EXIT_OPERATIONAL
    assert f"{url}: " in err
    assert "Permission denied (Access Denied for *** of ***)" in err
    assert SECRET not in out + err
    assert KEY not in out + err


def test_no_endpoint(lines: Lines) -> None:
    options = ["endpoint_url=http://127.0.0.1:9", "key=nobody", f"secret={SECRET}"]
    words = [word for option in options for word in ("--storage-option", option)]
    code, _, err = lines("check", "s3://bucket/store", *words)
    assert code == EXIT_OPERATIONAL
    assert "Could not connect to the endpoint" in err
    assert SECRET not in err


def test_options_go_where_the_store_goes(
    server: tuple[str, Any], store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told to `open_store`, used for all that is below, pickled with it, and shown nowhere."""
    endpoint, client = server
    url = put_on_s3(client, store_dir("5.3.3-basic"))
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    store = open_store(url, storage_options=options)
    assert store.stated.storage_options == StorageOptions(options)
    assert options_for(f"{url}/index/1") == StorageOptions(options)
    report = check_store(store)
    assert not report.not_checked
    shown = json.dumps(report.to_json()) + repr(store)
    assert "secret=VALUE" in shown or not any("rocketfsck dump" in line for line in report.next_commands)
    assert SECRET not in shown
    pickled = pickle.dumps(store)
    monkeypatch.setattr("rocketfsck.store.places.urls._options", {})  # as in another process
    monkeypatch.setattr("rocketfsck.store.places.urls._systems", {})
    again = pickle.loads(pickled)
    assert again == store
    with FileReader(again.root / "checkpoint") as reader:
        assert reader.size == 4096


def test_secrets_are_no_part_of_commands(put_there: Put, store_copy: Callable[[str], Path]) -> None:
    root = store_copy("5.3.3-basic")
    (root / "checkpoint").write_bytes(bytes(4096))
    url = put_there(root)
    report = check_store(open_store(url, storage_options={"secret": SECRET}))
    commands = [item.next_command for item in report.diagnoses if item.next_command]
    assert any("--storage-option secret=VALUE" in command for command in commands)
    assert SECRET not in json.dumps(report.to_json())


# --- locations ---


def test_file_urls_are_paths(store_dir: Directory) -> None:
    local = store_dir("5.3.3-basic")
    assert open_store(f"file://{local}") == open_store(local)
    with pytest.raises(UsageError, match="three slashes"):
        locate("file://store")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("nosuch://x/y", "does not know a file system 'nosuch'"),
        ("sftp://user:hush@host/x", "a password in a URL"),
        ("s3://bucket/a//b", "an empty name"),
        ("s3://", "no place in it"),
        ("hdfs:///", "no place in it"),
        ("s3://bucket/a/../b", "or . or .. as a name"),
    ],
)
def test_urls_that_are_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        open_store(text)
    assert "hush" not in str(caught.value)


def test_pathlib_breaks_urls() -> None:
    with pytest.raises(UsageError, match="give the URL as text"):
        open_store(Path("s3://bucket/store"))


def test_local_names_that_look_like_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "what:" / "s3:" / "x").mkdir(parents=True)
    (tmp_path / "what:" / "s3:" / "x" / "file").write_bytes(b"abc")
    assert not is_remote(locate("what://s3://x"))
    for text in ("what://s3://x/file", f"{tmp_path}/what://s3://x/file"):
        with FileReader(text) as reader:
            assert reader.read(0, 3) == b"abc"


def test_a_remote_path_is_a_path() -> None:
    for url in ("s3://bucket", "s3://bucket/a/b", "hdfs://host:8020/a/b", "hdfs:///a/b", "memory://a"):
        path = locate(url)
        assert str(path) == url
        assert str(path / "c") == f"{url}/c"
        assert (path / "c").parent == path
        assert pickle.loads(pickle.dumps(path)) == path
        assert path.absolute() == path.resolve() == path
    assert str(locate("s3://bucket/a/")) == "s3://bucket/a"


def test_a_check_of_a_directory_imports_nothing_for_urls(store_dir: Directory) -> None:
    code = """
import sys
from rocketfsck import open_store
open_store(sys.argv[1])
names = ("fsspec", "rocketfsck.store.places.remote", "rocketfsck.store.places.blocks")
print([name for name in names if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, store_dir("5.3.3-basic")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"pip install fsspec s3fs"):
        open_store("s3://bucket/store")


def test_without_s3fs(monkeypatch: pytest.MonkeyPatch, lines: Lines) -> None:
    from rocketfsck.store.places import urls

    def missing(scheme: str) -> Any:
        raise ImportError(f"Install s3fs to access {scheme}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    monkeypatch.setattr(urls, "_systems", {})
    code, _, err = lines("check", "s3://bucket/store")
    assert code == EXIT_USAGE
    assert "Install s3fs to access s3: run pip install fsspec s3fs" in err


@pytest.mark.parametrize("word", ["secret", "=x", "a b=c", "1=2"])
def test_options_that_are_none(word: str, lines: Lines) -> None:
    code, _, err = lines("check", "memory://x", "--storage-option", word)
    assert code == EXIT_USAGE
    assert "storage option 1 is not KEY=VALUE" in err


def test_options_last_for_one_command_line(memory: Any, store_dir: Directory, lines: Lines) -> None:
    url = put_in_memory(memory, store_dir("5.3.3-basic"))
    assert lines("info", url, "--storage-option", "anything=[1]")[0] == 0
    assert options_for(url).names == ()


def test_a_single_remote_file(kept: Put, store_dir: Directory) -> None:
    local = store_dir("5.3.3-basic")
    url = kept(local)
    name = f"index/{next((local / 'index').iterdir()).name}"
    here, there = identify_file(local / name), identify_file(f"{url}/{name}")
    assert (there.kind, there.size, there.slot_count) == (here.kind, here.size, here.slot_count)
    with pytest.raises(StoreError, match="is a directory"):
        FileReader(locate(f"{url}/index"))
    with pytest.raises(StoreError, match="cannot be opened: No such file"):
        FileReader(locate(f"{url}/none"))


def test_the_size_of_a_listing_is_believed(kept: Put, store_dir: Directory) -> None:
    """A file that was listed is opened without a request."""
    file = open_store(kept(store_dir("5.3.3-basic"))).commitlog.files[0]
    assert isinstance(file.location, Location)
    with FileReader(file.path) as reader:
        assert (reader.size, reader.allocated_size) == (file.size, file.size)
        assert list(reader.data_extents(10, 100)) == [(10, 100)]
        assert reader.read_upto(file.size - 3, 10) == reader.read(file.size - 3, 3)
        with pytest.raises(StoreError, match="goes beyond them"):
            reader.read(file.size - 3, 4)


def test_a_pattern_gives_the_stores_that_fit(put_there: Put, store_dir: Directory) -> None:
    from rocketfsck.pipeline.sources import find_sources

    url = put_there(store_dir("5.3.3-basic").parent)
    assert [source.path for source in find_sources([f"{url}/st?r*"])] == [f"{url}/store"]
    (source,) = find_sources([url], storage_options={"secret": SECRET})
    assert (source.path, source.storage_options.names) == (f"{url}/store", ("secret",))
    assert SECRET not in repr(source)
    with pytest.raises(UsageError, match="no store matches"):
        find_sources([f"{url}/nothing-*"])
