"""`--max-memory`: how much memory a command may use; the number of jobs follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from rocketfsck.cli.paramtypes import ByteSize
from rocketfsck.engine.memory import MIB, Need, bounded_memory
from rocketfsck.errors import UsageError

Function = Callable[..., Any]

NEEDS: Mapping[str, Need] = {
    "check": Need(320 * MIB, 64 * MIB),
    "plan": Need(320 * MIB, 64 * MIB),
    "fix": Need(320 * MIB, 64 * MIB),
    "rebuild": Need(300 * MIB, 64 * MIB),
    "report": Need(320 * MIB, 64 * MIB),
    "salvage": Need(320 * MIB, 64 * MIB),
    "compare": Need(256 * MIB, 64 * MIB),
    "export": Need(384 * MIB, 192 * MIB),
}
"""By command. docs/guide/limits.md has the same table; the tests measure it."""

ROWS_SIZE = 64 * MIB
"""Of an export's task, the part for its rows."""


def memory_option(command: str) -> Callable[[Function], Function]:
    """`--max-memory` for the command of this name."""
    need = NEEDS[command]

    def add(function: Function) -> Function:
        @wraps(function)
        def run(*args: Any, max_memory: int | None, **given: Any) -> Any:
            if max_memory is None:
                return function(*args, **given)
            if given.get("engine", "local") != "local":
                raise UsageError("--max-memory limits this process; Spark has spark.executor.memory")
            if command == "export" and given["memory"] is None:
                given["memory"] = ROWS_SIZE
            with bounded_memory(max_memory, need):
                return function(*args, **given)

        option = click.option(
            "--max-memory",
            type=ByteSize(),
            metavar="SIZE",
            help=f"Use at most this much memory: {need.fixed // MIB}MiB and {need.each // MIB}MiB a job; "
            "what does not fit is an error.",
        )
        return option(run)

    return add
