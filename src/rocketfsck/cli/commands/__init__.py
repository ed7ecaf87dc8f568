"""The commands: `check` is `check_command` of the module `check`, which may have others of its kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

GROUPS: dict[str, dict[str, str]] = {
    "First aid": {
        "check": "Verify a store: what is wrong, where, and what to do.",
        "fix": "Repair a store: check, plan, ask, repair, check again.",
        "undo": "Undo the last repair of a store.",
        "explain": "Explain a line of a broker's log, a rule or a class of faults.",
    },
    "Look": {
        "info": "Show what a store or file holds, without a scan.",
        "browse": "Look into a store in a terminal, down to the byte.",
        "dump": "Show the contents of any file, directory or store.",
        "find": "Find all that a text is: a key, an id, a host, a time, a topic …",
        "query": "Find messages by id, key, offset, time or content.",
        "count": "Count the messages of stores by topic, queue, day and key.",
        "timeline": "Show what the files of a store tell about time.",
        "compare": "Show where replicas differ; heal one from the other.",
        "simulate": "Predict what a broker will do when it starts on a store.",
    },
    "Copies": {
        "rebuild": "Rebuild queues, index or checkpoint from the commit log.",
        "salvage": "Carve records out of any files into a new store.",
        "extract": "Cut topics or a time window out, as a small store.",
        "convert": "Make a store plain, of other file sizes, or a controller's.",
        "export": "Write what stores hold as Parquet, Delta or Iceberg tables.",
        "bugreport": "Write an archive for a bug report, with a masked copy.",
    },
    "Experts": {
        "plan": "Plan a repair: its actions, reasons and losses.",
        "apply": "Carry out a plan, check the result, put it in place.",
        "write": "Write a store as a broker would, from messages or a seed.",
        "damage": "Break a copy of a store; list what a check must find.",
        "learn": "Make damaged stores as exercises, and say which are solved.",
        "certify": "Certify what was read and proven; verify a certificate.",
    },
}
"""The commands in the order of the help, and what each does in a line."""

PLUMBING: dict[str, str] = {
    "page": "Make a page with pictures of a check that was saved.",
    "config": "Show the settings in force, and where each is set.",
    "schema": "Print the JSON Schema of a document that a command writes.",
    "completion": "Print the completion script for a shell.",
}
"""Commands that the help names in one line."""

COMMANDS: dict[str, str] = {
    **{name: line for group in GROUPS.values() for name, line in group.items()},
    **PLUMBING,
}
"""All commands, and what each does in a line."""

OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "check": ("fsck", "verify", "validate", "scan", "status"),
    "fix": ("repair", "recover", "heal"),
    "undo": ("rollback", "restore", "revert"),
    "count": ("report", "stats", "statistics"),
    "find": ("search", "grep", "get"),
    "dump": ("cat", "show"),
    "compare": ("diff",),
    "salvage": ("carve",),
    "extract": ("cut", "slice"),
    "rebuild": ("reindex",),
    "browse": ("ui", "tui"),
    "learn": ("tutorial", "exercises"),
    "--help": ("help",),
    "--version": ("version",),
}
KNOWN_ELSEWHERE = {word: command for command, words in OTHER_WORDS.items() for word in words}
"""Words that people try, and the command that does it here."""

SHARED_MODULES: dict[str, tuple[str, ...]] = {
    "apply": ("undo", "plan"),
    "certify": ("bugreport", "page"),
    "compare": ("salvage",),
    "config": ("completion",),
    "convert": ("extract",),
    "damage": ("learn", "write"),
    "explain": ("schema",),
    "info": ("count",),
    "query": ("find",),
    "simulate": ("timeline",),
}
MODULES = {command: module for module, commands in SHARED_MODULES.items() for command in commands}
"""Commands that are not in a module of their name."""

_END = "_command"


def load_command(name: str) -> Any:
    """The command of that name, its module imported."""
    return getattr(import_module(f"{__name__}.{MODULES.get(name, name)}"), name + _END)


def command_of_function(function: Callable[..., object]) -> str:
    """The command that a function belongs to: its own, or the group of its module; "" for none here."""
    package, _, module = function.__module__.rpartition(".")
    own = function.__name__.removesuffix(_END)
    return (own if own in COMMANDS else module) if package == __name__ else ""
