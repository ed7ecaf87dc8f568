"""The options that say where the work is done: on threads of this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.engine import Engine

Function = TypeVar("Function", bound=Callable[..., Any])


def engine_options(command: Function) -> Function:
    """`--engine` and `--master`."""
    command = click.option(
        "--master",
        metavar="URL",
        help="Spark's master, like spark://host:7077; default: embedded, on all cores of this machine.",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="local: threads of this process. spark: a Spark session, on this machine or a cluster.",
    )(command)


def chosen_engine(name: str, master: str | None, jobs: int) -> Engine:
    """The engine that the options name. Raises UsageError where they contradict, or Spark is not there."""
    if name == "local":
        if master is not None:
            raise UsageError("--master is of Spark: give --engine spark, too")
        from rocketfsck.engine import LocalEngine

        return LocalEngine(jobs)
    if jobs and master is not None:
        raise UsageError("--jobs is of this machine: on a cluster the master has the cores")
    from rocketfsck.engine.spark import SparkEngine, open_session

    return SparkEngine(open_session(master or f"local[{jobs or '*'}]"))
