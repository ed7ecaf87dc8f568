"""The pytest plugin: fixtures for tests of programs that write or read stores.

    assert_rocketmq_store      asserts that a directory is a conformant store; --rocketmq-version and
                               --rocketmq-level give the defaults of the run
    rocketmq_store             writes messages, or what a strategy drew, into a new store; gives its directory
    damaged_rocketmq_store     damages a copy of a store; gives its directory and what a check must find

Loaded where rocketfsck is installed. Nothing of rocketfsck is imported until a fixture is used. A failure
shows the test's own call and one message, not the source of rocketfsck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from rocketfsck.testing.conformance import PlannedStore
    from rocketfsck.verify.report import Report
    from rocketfsck.writer import Event, WriteOptions
    from rocketfsck.writer.damage import DamageReport

P = ParamSpec("P")
T = TypeVar("T")

_LEVELS = ("quick", "cross", "full")


class AssertStore(Protocol):
    """`rocketfsck.testing.assert_conformant` with the defaults of the run."""

    def __call__(self, directory: Path | str, **options: Any) -> Report: ...


class MakeStore(Protocol):
    """Writes a store into a new directory."""

    def __call__(self, what: PlannedStore | Iterable[Event], options: WriteOptions | None = None) -> Path: ...


DamageStore = Callable[..., "tuple[Path, DamageReport]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the run."""
    group = parser.getgroup("rocketfsck", "conformance of RocketMQ stores")
    group.addoption(
        "--rocketmq-version", metavar="VERSION", help="broker version by which stores are checked"
    )
    group.addoption("--rocketmq-level", choices=_LEVELS, default="full", help="level of the checks of stores")


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """The function; what rocketfsck raises on purpose comes without the calls inside rocketfsck."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        from rocketfsck.errors import RocketfsckError

        __tracebackhide__ = True
        try:
            return function(*arguments, **named)
        except (AssertionError, RocketfsckError) as error:
            raise error.with_traceback(None) from None

    return call


@pytest.fixture(scope="session")
def assert_rocketmq_store(pytestconfig: pytest.Config) -> AssertStore:
    """Assert that a directory is a conformant store: `assert_rocketmq_store(directory, version=…, …)`."""
    from rocketfsck.testing.conformance import assert_conformant

    version = pytestconfig.getoption("--rocketmq-version")
    level = pytestconfig.getoption("--rocketmq-level")

    @plain_errors
    def assert_store(directory: Path | str, **options: Any) -> Report:
        return assert_conformant(directory, **{"version": version, "level": level, **options})

    return assert_store


@pytest.fixture
def rocketmq_store(tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """Write messages (or a `PlannedStore`) into a new store; gives its directory."""
    from rocketfsck.testing.conformance import PlannedStore
    from rocketfsck.writer import WriteOptions, write_store

    @plain_errors
    def make(what: PlannedStore | Iterable[Event], options: WriteOptions | None = None) -> Path:
        directory = tmp_path_factory.mktemp("rocketmq") / "store"
        if isinstance(what, PlannedStore):
            what.write(directory)
        else:
            write_store(directory, what, WriteOptions(sync=False) if options is None else options)
        return directory

    return make


@pytest.fixture
def damaged_rocketmq_store(tmp_path_factory: pytest.TempPathFactory) -> DamageStore:
    """Damage a copy: `damaged_rocketmq_store(store, "torn-tail", …, seed=0)` gives (directory, report)."""
    from rocketfsck.writer.damage import damage_store

    @plain_errors
    def damage(store: Path | str, *faults: str, seed: int = 0) -> tuple[Path, DamageReport]:
        directory = tmp_path_factory.mktemp("damaged") / "store"
        return directory, damage_store(store, directory, faults, seed)

    return damage
