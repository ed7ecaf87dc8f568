"""The bar appears on terminals only, after a second, and goes away."""

from __future__ import annotations

import io
import sys

import pytest

from rocketfsck.cli import progress as module
from rocketfsck.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_drawn_after_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.0)
    with progress("check [red]store\x1b", 100) as bar:
        bar.update(0)
        bar.update(50, 200)
        bar.update(100)
    assert "check [red]store\\x1b" in terminal.getvalue()


def test_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress("check", 100) as bar:
        bar.update(50)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_not_without_a_person(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    stream = io.StringIO() if wanted else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.0)
    with progress("check", 100, wanted=wanted) as bar:
        bar.update(50)
    assert stream.getvalue() == ""
