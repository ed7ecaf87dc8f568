"""The lines of `--progress json`."""

from __future__ import annotations

from typing import Literal, TypedDict

from rocketfsck.cli.schema.making import said
from rocketfsck.progress import Unit


@said
class ProgressLine(TypedDict):
    schema_version: int
    type: Literal["progress"]
    phase: str
    done: int
    total: int | None
    unit: Unit
    rate: float
    elapsed_seconds: float
    eta_seconds: float | None
    note: str


@said
class ProgressEnd(TypedDict):
    schema_version: int
    type: Literal["end"]
    exit_status: int
    elapsed_seconds: float
