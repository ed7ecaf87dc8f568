"""Broker-written stores for every test: unpacked once a session, with what the broker said of them."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rocketfsck.scan.machine.jit import compiled_wanted

from tests import surroundings, thorough

surroundings.settle()
compiled_wanted(1 << 40)  # one process for many stores: kernels, where there are any, from the first scan on

DATA = Path(__file__).parent / "data"


def _names(folder: str) -> list[str]:
    found = sorted(path.name.removesuffix(".tar.xz") for path in (DATA / folder).glob("*.tar.xz"))
    assert found, f"no store in {DATA / folder}"
    return found


# The same examples every time, so that a change is judged by itself; the long suites look for new ones.
NIGHTLY = "ROCKETFSCK_NIGHTLY" in os.environ
settings.register_profile(
    "rocketfsck",
    deadline=None,
    derandomize=not NIGHTLY,
    max_examples=200 if NIGHTLY else 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rocketfsck")

STORE_NAMES = _names("stores")
RESTART_NAMES = _names("restart")
REAL_NAMES = _names("real")
"""Stores of released brokers with features that `stores` has none of (tests/data/real)."""
RELEASED = {
    "timers": ("5.5.0-timer", "5.5.0-snapshot"),
    "compacted logs": ("5.5.0-compaction",),
    "tiered storage": ("5.5.0-tiered",),
    "a DLedger log": ("5.5.0-dledger", "4.9.7-dledger-mixed"),
    "a RocksDB of consume queues": ("5.5.0-rocksdb-cq", "5.5.0-combine"),
    "a RocksDB of messages": ("5.5.0-rocksdb-all",),
    "a RocksDB with rows in its WAL": ("5.5.0-pop-kv-killed", "5.5.0-rocksdb-config-v2"),
}
"""Stores of released brokers, by what only they have."""

SNAPSHOT_RELEASED_AS = "5.3.4"
"""The release that reads and writes as the development state does of which the HEAD-… stores are."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    thorough.mark(items)


Directory = Callable[[str], Path]
Document = Callable[[str], dict[str, Any]]


def released(version: str) -> str:
    """The version that a manifest or a store's name tells, as a broker's version."""
    word = version.split()[0]
    return SNAPSHOT_RELEASED_AS if word == "HEAD" else word


def _manifest(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for name in ("brokerVersion", "finalVersion"):
        if name in document:
            document[name] = released(document[name])
    return document


def _unpacker(folder: str, target: Path) -> Directory:
    @cache
    def unpack(name: str) -> Path:
        with tarfile.open(DATA / folder / f"{name}.tar.xz") as archive:
            archive.extractall(target, filter="tar")
        return target / name

    return unpack


@pytest.fixture(scope="session", autouse=True)
def _priority() -> Iterator[None]:
    """What runs in the background in one test keeps no priority for the tests after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda _: 0)
        yield


@pytest.fixture(scope="session")
def _stores(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return _unpacker("stores", tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session")
def _restarts(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return _unpacker("restart", tmp_path_factory.mktemp("restart"))


@pytest.fixture(scope="session")
def store_dir(_stores: Directory) -> Directory:
    """Gives the directory of a broker-written store by name. Shared by all tests: never alter it."""
    return lambda name: _stores(name) / "store"


@pytest.fixture(scope="session")
def manifest(_stores: Directory) -> Document:
    """Gives the manifest of a broker-written store: what went in and what the broker answered."""
    return cache(lambda name: _manifest(_stores(name) / "manifest.json"))


@pytest.fixture(scope="session")
def restart_dir(_restarts: Directory) -> Directory:
    """Gives the directory of a damaged store by name. Shared by all tests: never alter it."""
    return lambda name: _restarts(name) / "store"


@pytest.fixture(scope="session")
def oracle(_restarts: Directory) -> Document:
    """Gives what the real broker did with a damaged store on restart."""
    return cache(lambda name: json.loads((_restarts(name) / "oracle.json").read_text("utf-8")))


@pytest.fixture(scope="session")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return _unpacker("real", tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="session")
def real_dir(_real: Directory) -> Directory:
    """Gives the directory of a store that a released broker wrote. Shared by all tests: never alter it."""
    return lambda name: _real(name) / "store"


@pytest.fixture(scope="session")
def group_dir(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Gives the directory of a group of brokers by name, in it the nodes' stores. Never alter it."""
    return _unpacker("groups", tmp_path_factory.mktemp("groups"))


@pytest.fixture(scope="session")
def any_dir(store_dir: Directory, real_dir: Directory) -> Directory:
    """Unpacks a store of either collection."""
    return lambda name: (real_dir if name in REAL_NAMES else store_dir)(name)


@pytest.fixture(scope="session")
def real_manifest(_real: Directory) -> Document:
    """Gives the manifest of a store that a released broker wrote."""
    return cache(lambda name: json.loads((_real(name) / "manifest.json").read_text("utf-8")))


@pytest.fixture
def real_copy(real_dir: Directory, tmp_path: Path) -> Directory:
    """Gives a copy of a store that a released broker wrote, for the test to alter."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(real_dir(name), tmp_path / "store"))

    return copy


@pytest.fixture
def store_copy(store_dir: Directory, tmp_path: Path) -> Directory:
    """Gives a copy of a broker-written store that the test may alter."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(store_dir(name), tmp_path / "store"))

    return copy
