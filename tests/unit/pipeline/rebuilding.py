"""What the tests of the rebuilding job share: whole directories compared, engines that do things twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketfsck.engine import Engine, LocalEngine, Outcome
from rocketfsck.pipeline.fleet.records import RECORDS
from rocketfsck.pipeline.rebuild.job import rebuild_on
from rocketfsck.repair.build.run import RebuildOptions, Rebuilt, rebuild_store
from rocketfsck.store.model import Store

ALL = RebuildOptions(queues=True, index=True, checkpoint=True, sync=False)
BOTH = RebuildOptions(queues=True, index=True, sync=False)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below a directory with its bytes; directories with None."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def assert_same(
    store: Store, folder: Path, options: RebuildOptions = ALL, *, engines: Sequence[Engine] | None = None
) -> Rebuilt:
    """Build on each engine what `rebuild_store` builds: the same files, the same account."""
    expected = rebuild_store(store, folder / "expected", options)
    files = tree(folder / "expected")
    for number, engine in enumerate(engines or [LocalEngine(3)]):
        target = folder / f"job-{number}"
        assert rebuild_on(engine, store, target, options) == expected
        assert tree(target) == files
    assert sorted(path.name for path in folder.iterdir() if "rebuilding" in path.name) == []
    return expected


@dataclass(frozen=True)
class TwiceEngine:
    """Runs every task twice, as after a lost worker or beside a slow one; the results may be of either."""

    first: Callable[[Callable[[Any], Any], Any], Any] = lambda kernel, task: kernel(task)
    seen: list[Any] = field(default_factory=list)

    @property
    def job_count(self) -> int:
        return 2

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert deadline is None
        for task in tasks:
            self.seen.append(self.first(kernel, task))
        yield from LocalEngine(2).run(kernel, list(reversed(tasks)))


def names(into: Path) -> list[str]:
    """What is in the directory of a fleet's rebuild, beside its records."""
    return sorted(path.name for path in into.iterdir() if path.name != RECORDS)


def results(into: Path) -> dict[str, bytes | None]:
    """`tree` without the records, which name inodes."""
    return {name: data for name, data in tree(into).items() if name.partition("/")[0] != RECORDS}
