"""`rocketfsck certify STORE`: what was read, what was proven, what cannot be known, with hashes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.commands.certify import Certificate, CertifyAnswer, CertifyCommand, certify
from rocketfsck.common.documents import printable, to_document
from rocketfsck.common.options import Option, PutAfter
from rocketfsck.common.wording import count_of

SHOWN = 10
"""Names of files or rules that a list shows without --verbose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyLine(CertifyCommand):
    """What is certified or verified, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    verbose: Annotated[
        bool, PutAfter("against"), Option("List every file and every rule.", names=("-v", "--verbose"))
    ] = False


@command_of(CertifyLine)
def command(line: CertifyLine) -> int:
    """Read all of STORE, check it at level full, and certify: the SHA-256 of each file, the rules that ran
    and found nothing, those without a part to look at, what was found, what was not checked, what no check
    can know, the verdict.

    The JSON has a hash over itself, which a second certificate of the same store has, too; the time does not
    count. With --against nothing is checked: the files are compared with those of a certificate, and exit
    status 4 means that the store is another one now. certify writes nothing into the store.
    """
    answer = certify(line)
    line.answer.say(
        lambda: to_document(answer.document),
        lambda _: _compared(answer, line) if answer.verified else _lines(answer.certificate, line),
        [line.store_path, *line.stated.commitlog_paths],
    )
    return answer.exit_code


def _compared(answer: CertifyAnswer, line: CertifyLine) -> Iterator[str]:
    count = count_of(answer.certificate.file_count, "file")
    if answer.same:
        yield f"The same: {count}, as certified."
        return
    yield f"Not the same: the certificate has {count}."
    for word, names in (("changed", answer.changed), ("added", answer.added), ("removed", answer.removed)):
        for name in _some(names, line):
            yield f"  {word:<8} {name}"


def _lines(one: Certificate, line: CertifyLine) -> Iterator[str]:
    versions = ", ".join(one.versions) or "of an unknown version"
    yield f"Store        {printable(one.store)} (RocketMQ {versions})"
    yield f"Verdict      {one.state}"
    yield f"Read         {count_of(one.file_count, 'file')}, {count_of(one.byte_count, 'byte')}"
    yield f"Coverage     {one.coverage}"
    yield f"Proven       {count_of(len(one.proven), 'rule')} ran and found nothing"
    if line.verbose:
        yield from (f"  {rule}" for rule in one.proven)
    if one.not_applicable:
        count = count_of(len(one.not_applicable), "rule")
        yield f"No part      {count} had nothing to look at"
    if line.verbose:
        yield from (f"  {rule}" for rule in one.not_applicable)
        yield from (f"  {file.sha256}  {printable(file.path)}" for file in one.files)
    findings = [f"{rule} ({count:,})" for rule, count in one.found.items()]
    yield f"Found        {', '.join(findings) or 'nothing'}"
    for item in one.not_checked:
        yield f"Not checked  {printable(item.what)}: {printable(item.reason)}"
    yield from (f"Not known    {text}" for text in one.unknowable)
    yield f"Certificate  {one.sha256} (rocketfsck {one.tool_version})"


def _some(names: tuple[str, ...], line: CertifyLine) -> Iterator[str]:
    shown = names if line.verbose else names[:SHOWN]
    yield from map(printable, shown)
    if len(shown) < len(names):
        yield f"and {len(names) - len(shown)} more"
