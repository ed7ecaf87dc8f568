"""The options that say where the work is done: on threads of this process, or on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.common.budget import current
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.engine import Engine

Function = TypeVar("Function", bound=Callable[..., Any])

_CONF = "rocketfsck.spark_conf"


def engine_options(command: Function) -> Function:
    """`--engine`, `--master` and `--spark-conf` (which `chosen_engine` finds by itself)."""
    command = click.option(
        "--spark-conf",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_keep_conf,
        help="A setting of Spark, like spark.executor.memory=4g; may be given several times.",
    )(command)
    command = click.option(
        "--master",
        metavar="URL",
        help="Spark's master, like spark://host:7077; default: embedded, on all cores of this machine.",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default=_default_engine,
        show_default="local; under spark-submit: spark",
        help="local: threads of this process. spark: a Spark session, on this machine or a cluster.",
    )(command)


def chosen_engine(
    name: str, master: str | None, paths: Sequence[Path] = (), *, into: Path | None = None
) -> Engine:
    """The engine that the options name; `paths` are what every executor of a cluster must see.

    Executors write below the parent of `into`, which they must see as well; messages name `into` itself.
    Raises UsageError where options contradict, or Spark is not there.
    """
    conf = _conf()
    if name == "local":
        for option, given in (("--master", master is not None), ("--spark-conf", bool(conf))):
            if given:
                raise UsageError(f"{option} needs --engine spark")
        from rocketfsck.engine import LocalEngine

        return LocalEngine()
    from rocketfsck.engine.session import is_embedded, is_submitted

    jobs = current().jobs
    if jobs and (master is not None or is_submitted()):
        raise UsageError("--jobs is for this machine: on a cluster the master has the cores")
    from rocketfsck.engine.spark import SparkEngine, open_session

    url = master if master is not None or is_submitted() else f"local[{jobs or '*'}]"
    session = open_session(url, conf=conf)
    if not is_embedded(session):
        for path in (*paths, *(() if into is None else (into,))):
            if "://" not in os.fspath(path) and not path.is_absolute():
                raise UsageError(
                    f"{path}: executors run elsewhere, so give the absolute path: {path.absolute()}"
                )
    seen = (*paths, *(() if into is None else (into.parent,)))
    return SparkEngine(session, paths=tuple(map(os.fspath, seen)))


def _default_engine() -> str:
    # as `engine.session.is_submitted` has it; a check without Spark need not import that
    return "spark" if "PYSPARK_GATEWAY_PORT" in os.environ else "local"


def _keep_conf(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    for value in values:
        if not value.startswith("spark.") or "=" not in value:
            raise click.BadParameter(f"{value!r} is not of the form spark.name=value", context, parameter)
    context.meta[_CONF] = dict(value.split("=", 1) for value in values)


def _conf() -> dict[str, str]:
    context = click.get_current_context(silent=True)
    found: dict[str, str] = {} if context is None else context.meta.get(_CONF, {})
    return found
