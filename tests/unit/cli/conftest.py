"""The command line in process: what it printed and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rocketfsck.cli.app import run


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def rows(self) -> list[dict[str, Any]]:
        """The objects of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Ended]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line and gives exit status, standard output and standard error.

    Paragraphs are 100 wide and tables as wide as they are, wherever the tests run.
    """
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: object) -> Ended:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return call
