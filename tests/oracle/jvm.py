"""A Java process with the broker's code of one version: built where need be, lines in, lines out.

`store` is the harness of the store code alone, `brokers` the one with whole brokers (`build`).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

BUILD = Path(__file__).parent / "build"
Harness = Literal["store", "brokers"]
Document = Mapping[str, Any]

_BUILD_SECONDS = 600
_FLAGS = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Space on the machine's disk is no concern of these stores.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.999",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.999",
    # Unmapping files as the store code did on Java 8.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


class OracleError(Exception):
    """The harness itself went wrong: no answer, or one that says so."""


def available(version: str, harness: Harness = "store") -> str | None:
    """None if this version's code can be run here (it is built where need be), else why not, in a word."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} on this machine"
    _, reason = _home(version, harness)
    return reason


@cache
def _home(version: str, harness: Harness) -> tuple[Path | None, str | None]:
    """The directory of what is built, or why there is none."""
    try:
        done = subprocess.run(
            [str(BUILD), version, harness],
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"rocketmq-store {version} could not be built: {error}"
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or [done.stderr[-300:]]
        return None, f"rocketmq-store {version} could not be built: {lines[0][:300]}"
    return Path(done.stdout.strip().splitlines()[-1]), None


def answers_of(
    version: str,
    harness: Harness,
    main: Sequence[str],
    jobs: Sequence[Document],
    *,
    flags: Sequence[str] = (),
    under: Sequence[str] = (),
    seconds: float,
) -> list[Document]:
    """One process of the class and arguments in `main`: a JSON line for each job, one for each answer.
    `under` is a command that runs it.

    Jobs and answers have an `id`, the job's place; the answers are in the order of the jobs. Raises
    OracleError where an answer is missing or says that the harness failed, and after so many `seconds`.
    """
    home, reason = _home(version, harness)
    if home is None:
        raise OracleError(reason or "not built")
    libraries = (home / "classpath").read_text().strip()
    lines = "".join(json.dumps({"id": number, **job}) + "\n" for number, job in enumerate(jobs))
    with tempfile.TemporaryDirectory() as user_home:
        command = [
            *under,
            "java",
            *_FLAGS,
            *flags,
            f"-Duser.home={user_home}",
            f"-Djava.io.tmpdir={user_home}",
        ]
        command += ["-cp", f"{home / 'oracle.jar'}:{libraries}", *main]
        answered, said = _process(version, command, lines.encode(), seconds)
    answers = {row["id"]: row for row in map(json.loads, answered.splitlines())}
    failures = [f"job {number}: {row['failure']}" for number, row in answers.items() if "failure" in row]
    if failures or len(answers) != len(jobs):
        raise OracleError(f"{len(answers)} of {len(jobs)} answers; {'; '.join(failures)}\n{said}")
    return [answers[number] for number in range(len(jobs))]


def _process(version: str, command: Sequence[str], lines: bytes, seconds: float) -> tuple[bytes, str]:
    """What the process printed, and the end of what it said of itself.

    One that takes too long says what its threads do, and is killed.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            answered, said = process.communicate(lines, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            time.sleep(1)
            process.kill()
            dump = process.communicate()[0].decode(errors="replace")
            stacks = dump.partition("Full thread dump")[2][:20000]
            raise OracleError(f"no end of {version} after {seconds} s: {stacks}") from None
    words = said.decode(errors="replace")[-4000:]
    if process.returncode:
        raise OracleError(f"the {version} process ended with {process.returncode}: {words}")
    return answered, words
