"""Completion of values: rules and repairs, through click's own machinery."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from rocketfsck.cli.app import group


def completed(words: list[str], begun: str) -> set[str]:
    shell = ShellComplete(group, {}, "rocketfsck", "_ROCKETFSCK_COMPLETE")
    return {item.value for item in shell.get_completions(words, begun)}


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_rules(option: str) -> None:
    assert "CL004" in completed(["check", option], "cl0")
    assert completed(["check", option], "record-body-c") == {"record-body-crc"}
    assert completed(["check", option], "CQ,record-body-c") == {"CQ,record-body-crc"}
    assert completed(["check", option], "nothing") == set()


@pytest.mark.parametrize("command", ["plan", "fix"])
@pytest.mark.parametrize("option", ["--only", "--except"])
def test_repairs(command: str, option: str) -> None:
    assert completed([command, option], "fence") == {"fence-gap"}


def test_what_explain_knows() -> None:
    assert {"repairs", "record-body-crc", "CL004"} <= completed(["explain"], "")
