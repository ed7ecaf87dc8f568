"""What to run next, as command lines that can be pasted: the same store, opened with the same options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rocketfsck.store.model import StatedOptions, Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.report import Coverage
from rocketfsck.verify.rules.rule import Level


def store_command(words: Sequence[str], stated: StatedOptions, root: Path | str) -> str:
    """`rocketfsck WORDS… STORE` for a shell, with the options that open the store as it was opened."""
    return shlex.join(["rocketfsck", *words, *stated_words(stated), str(root)])


def plan_command(store: Store, options: CheckOptions) -> str | None:
    """The command line that plans a repair of what this check found; it changes nothing.

    None for a store that is not on this machine: a repair works on a directory.
    """
    if is_remote(store.root):
        return None
    words = ["plan"] if options.level == "full" else ["plan", "--level", options.level]
    return store_command([*words, *_delay_levels(store)], store.stated, store.root)


def fix_command(store: Store, level: Level) -> str:
    """The command line that repairs a store that was checked at this level, after a question."""
    words = ["fix"] if level == "full" else ["fix", "--level", level]
    return store_command([*words, *_delay_levels(store)], store.stated, store.root)


def _delay_levels(store: Store) -> list[str]:
    levels = store.stated.delay_levels
    return [] if levels is None else ["--delay-levels", levels]


def stated_words(stated: StatedOptions) -> tuple[str, ...]:
    """The options shared by all commands that read a store: settings, version, commit log paths."""
    words = [] if stated.broker_conf is None else ["--broker-conf", str(stated.broker_conf)]
    words += [] if stated.version is None else ["--broker-version", stated.version]
    for path in stated.commitlog_paths:
        words += ["--commitlog-path", str(path)]
    return (*words, *_storage_words(stated))


def _storage_words(stated: StatedOptions) -> list[str]:
    """The options of a remote file system, without their values: they may be secrets."""
    return [word for name in stated.storage_options.names for word in ("--storage-option", f"{name}=VALUE")]


def continue_command(store: Store, options: CheckOptions, coverage: Coverage) -> str | None:
    """The command line that checks what was left out, as this check did; None if nothing was."""
    if coverage.complete:
        return None
    return store_command(["check", *_choices(options), *_delay_levels(store)], store.stated, store.root)


def _choices(options: CheckOptions) -> Iterator[str]:
    if options.level != "full":
        yield from ("--level", options.level)
    for name, rules in (("--select", options.select), ("--ignore", options.ignore)):
        if rules:
            yield from (name, ",".join(rules))
    if options.baseline is not None:
        yield from ("--baseline", str(options.baseline))
    rest = _rest(options.subset)
    if rest is not None:
        yield from ("--subset", rest)
    if options.max_duration is not None and options.resume is not None:
        yield from ("--max-duration", f"{options.max_duration:g}")  # without a file it would get no further
    if options.resume is not None:
        yield from ("--resume", str(options.resume))
    if options.jobs:
        yield from ("--jobs", str(options.jobs))


def _rest(subset: Subset | None) -> str | None:
    """The part after this one; None for all, which is what is left after the last and after a share."""
    if subset is None or subset.number >= subset.total:
        return None
    return f"{subset.number + 1}/{subset.total}"
