"""A standalone master and its workers, in processes of their own on loopback, from the installed pyspark.

Every process carries a mark in its environment, which what it starts inherits (executors, their Pythons):
whatever carries it at the end is ended, and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MARK = "ROCKETFSCK_TEST_CLUSTER"
PATIENCE_SECONDS = 300
_URL = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives for a minute: one collector thread, and no compiling that would pay off later."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(slots=True)
class Cluster:
    """A running cluster. `folder` holds logs and the executors' directories."""

    folder: Path
    environment: dict[str, str]
    master: subprocess.Popen[bytes]
    url: str
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def submitted(
        self, *arguments: str, script: Path, conf: Mapping[str, str] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What `spark-submit` says of an application."""
        options = [f"--conf={name}={value}" for name, value in (conf or {}).items()]
        program = [self.environment["SPARK_HOME"] + "/bin/spark-submit", "--master", self.url, *options]
        return self.ran([*program, str(script), *arguments], **environment)

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """What `rocketfsck ARGUMENTS --engine spark` says, run on this cluster."""
        return self.ran(self.line(*arguments), **environment)

    def line(self, *arguments: str) -> list[str]:
        """The command line of that."""
        return [sys.executable, "-m", "rocketfsck", *arguments, "--engine", "spark", "--master", self.url]

    def ran(self, line: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """A program of which every process is ended with the cluster."""
        return subprocess.run(
            line,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            env=self.environment | environment,
        )

    def start_workers(self, *names: str, core: int | None = None) -> None:
        """Start workers of one core each (of that one, if it is named); wait until the master knows them."""
        known = self.log("master").count("Registering worker")
        options = [
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
        ]
        for name in names:
            own = [*options, "--work-dir", str(self.folder / name), self.url]
            log = self.folder / f"{name}.log"
            self.workers[name] = _daemon("worker.Worker", own, log, self.environment, core)
        enough = known + len(names)
        wait_until(lambda: self.log("master").count("Registering worker") >= enough, "workers are registered")

    def log(self, name: str) -> str:
        """What the master or a worker has said until now."""
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def executor_pids(self) -> list[int]:
        """The executors' JVMs."""
        return [pid for pid in self.pids() if b"CoarseGrainedExecutorBackend" in _read(pid, "cmdline")]

    def executor_pids_of(self, name: str) -> list[int]:
        """The JVMs of a worker's executors."""
        folder = str(self.folder / name).encode()
        return [pid for pid in self.executor_pids() if os.fsencode(_working_folder(pid)).startswith(folder)]

    def worker_of(self, pid: int) -> str:
        """The worker of an executor, or of one of its Pythons; "" if the process has ended."""
        place = _working_folder(pid)
        return next((name for name in self.workers if place.startswith(f"{self.folder / name}/")), "")

    def restart_dead_workers(self) -> None:
        """Start anew what was killed."""
        dead = [name for name, process in self.workers.items() if process.poll() is not None]
        self.start_workers(*dead)

    def reading_pids(self, folder: Path) -> set[int]:
        """The executors' Pythons that have a file of a folder open just now."""
        pythons = [pid for pid in self.pids() if b"pyspark.daemon" in _read(pid, "cmdline")]
        return {pid for pid in pythons if any(path.startswith(f"{folder}/") for path in _open_paths(pid))}

    def pids(self) -> list[int]:
        """All processes of the cluster and of what ran on it, but this one."""
        mark = f"{MARK}={self.environment[MARK]}".encode()
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in pids if mark in _read(pid, "environ").split(b"\0")]

    def stop(self) -> list[int]:
        """End everything; what would not end by itself."""
        for process in (*self.workers.values(), self.master):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self._alive(), "the cluster has ended", seconds=15)
        left = self.pids()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (*self.workers.values(), self.master):
            process.wait(PATIENCE_SECONDS)
        return left

    def _alive(self) -> list[int]:
        for process in (*self.workers.values(), self.master):
            process.poll()
        return self.pids()


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 2, *, core: int | None = None) -> Iterator[Cluster]:
    """A master and its workers, of one core each; `core` says of which."""
    import pyspark

    from rocketfsck.engine.session import find_java, java_home

    folder.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))
    }
    variables |= {
        "JAVA_HOME": str(java_home(find_java())),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        MARK: uuid.uuid4().hex,
    }
    options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    master = _daemon("master.Master", options, folder / "master.log", variables)
    cluster = Cluster(folder, variables, master, "")
    try:
        wait_until(lambda: "I have been elected leader" in cluster.log("master"), "the master is there")
        (cluster.url,) = _URL.findall(cluster.log("master"))
        cluster.start_workers(*(f"worker{number}" for number in range(1, workers + 1)), core=core)
        yield cluster
    finally:
        cluster.stop()


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Look until something is so; TimeoutError names it."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain until {what}")
        time.sleep(0.05)


def _daemon(
    name: str, options: list[str], log: Path, environment: Mapping[str, str], core: int | None = None
) -> subprocess.Popen[bytes]:
    program = Path(environment["SPARK_HOME"]) / "bin" / "spark-class"

    def prepare() -> None:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if core is not None:
            os.sched_setaffinity(0, {core})

    with log.open("ab") as stream:
        return subprocess.Popen(
            [program, f"org.apache.spark.deploy.{name}", *options],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=prepare,
        )


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""


def _working_folder(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def _open_paths(pid: int) -> list[str]:
    paths = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                paths.append(str(entry.readlink()))
    return paths
