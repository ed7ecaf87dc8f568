"""All that a run needs: the subjects, what can be changed in them, a scratch folder, the workers."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tests.hostile.fuzz.cases import Case, Scenario, draw_case
from tests.hostile.fuzz.drawing import Ground, survey
from tests.hostile.fuzz.subjects import build_subjects
from tests.hostile.fuzz.workers import Outcome, Pool, run_here, scratch_folder

_WARM = (
    ("check", "{store}"), ("check", "{store}", "--format", "json"), ("info", "--stats", "{store}"),
    ("dump", "{store}", "--kind", "all"), ("query", "offsets", "{store}"), ("simulate", "{store}",
    "--as-broker", "5.3.3"),
    ("count", "{store}"), ("compare", "{store}", "{sound}"), ("query", "scan", "{store}", "queue_id == 1"),
    ("rebuild", "all", "{store}", "--into", "{out}/built", "--no-sync"), ("salvage", "{store}", "--into",
    "{out}/saved"),
    ("extract", "{store}", "--topic", "TopicA", "--into", "{out}/part"), ("extract", "{store}", "--begin",
    "0", "--into", "{out}/late"),
    ("convert", "plain", "{store}", "--into", "{out}/plain"),
    ("convert", "files", "{store}", "--into", "{out}/files"),
    ("convert", "geometry", "{store}", "--commitlog-file-size", "1MiB", "--into", "{out}/geometry"),
    ("convert", "controller", "{store}", "{sound}", "--into", "{out}/epochs"),
    ("dump", "{store}", "--format", "arrow"), ("dump", "{store}", "--format", "parquet"), ("explain",),
    ("query", "key", "{store}", "TopicA", "k1"), ("export", "{store}", "--into", "{out}/exported"),
)  # fmt: skip


class World:
    """Built once; forks its workers when cases are run. Use as a context."""

    def __init__(self, jobs: int = 1, *, compiled: bool = True) -> None:
        self.folder = scratch_folder()
        self.grounds: dict[str, Ground] = {}
        self.compiled = compiled
        self._jobs = jobs
        self._pool: Pool | None = None

    def __enter__(self) -> World:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if "TMPDIR" not in os.environ:
            os.environ["TMPDIR"] = str(self.folder)  # where plans are tried
        place = self.folder / "subjects"
        place.mkdir()
        self.grounds = {name: survey(subject) for name, subject in build_subjects(place).items()}
        self._warm()
        self._pool = Pool(self.grounds, self.folder, self._jobs)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.__exit__()
        if os.environ.get("TMPDIR") == str(self.folder):
            del os.environ["TMPDIR"]
        shutil.rmtree(self.folder)

    def _warm(self) -> None:
        """Import what commands import when they are called, once for all workers."""
        lines = [Scenario("read", line) for line in _WARM]
        lines += [Scenario("repair"), Scenario("heal"), Scenario("hostile-rows", seed=4)]
        outcome = self.run_here(Case(-1, "killed-5.1.4", (), tuple(lines)))
        assert not outcome.violations, outcome.violations
        if self.compiled:
            self.run_here(Case(-1, "plain-5.3.3", (), tuple(lines), compiled=True))
        gc.collect()
        gc.freeze()

    def draw(self, seed: int) -> Case:
        """The case of a seed."""
        case = draw_case(seed, self.grounds)
        return case if self.compiled else replace(case, compiled=False)

    def run_here(self, case: Case) -> Outcome:
        """A case in this process, without a watch."""
        return run_here(case, self.grounds, self.folder)

    def run(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        """The cases of these seeds, watched, in any order."""
        return self.run_cases(self.draw(seed) for seed in seeds)

    def run_cases(self, cases: Iterable[Case]) -> Iterator[Outcome]:
        """These cases, watched, in any order."""
        assert self._pool is not None
        return self._pool.run(cases)

    def run_one(self, case: Case) -> Outcome:
        """One case, watched."""
        (outcome,) = self.run_cases([case])
        return outcome
