"""Commit log files to which others were appended: each gets its own length and name again.

    the appended bytes are in a file of their own, too     they are cut off
    the store has no such file                             they become that file, and are then cut off

All bytes that go are in another file of the log: nothing is lost. Reference 1.2, 2.1; fault catalogue C6.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.arguments import FileParts
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, one_by_one, whole_file
from rocketfsck.repair.repairs.misnamed import claims
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.store.misnamed import Appended, appended_files, same_content

_HEAD_SIZE = 1 << 20
"""Bytes of each piece that must be those of the plan."""


def plan_split(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """One action a file; it answers its length and what else follows from it, too."""
    wanted = {finding.where.file for finding in one_by_one(findings)}
    found = scene.once(_appended) if wanted else ()
    taken = [name for file in found for name in _names_of(file) if name]
    for file in found:
        names = _names_of(file)
        is_free = all(not os.path.lexists(scene.path_of(name)) for name in names if name)
        if file.relative not in wanted or not is_free or any(taken.count(name) > 1 for name in names if name):
            continue
        own = [finding for finding in scene.findings if finding.where.file == file.relative]
        made = [name.rpartition("/")[2] for name in names if name]
        note = (
            f"cut the file to {count_of(file.size, 'byte')}: what is appended becomes {', '.join(made)}"
            if made
            else f"cut the file to {count_of(file.size, 'byte')}: other files have what is appended"
        )
        yield answer(
            "split-segment",
            file.relative,
            note,
            [*own, *(finding for finding in scene.findings if claims(finding))],
            arguments=FileParts(file.size, names),
            preconditions=[
                *(
                    scene.extent(file.relative, pos, pos + min(file.size, _HEAD_SIZE))
                    for pos in (0, *(piece.pos for piece in file.pieces))
                ),
                *(
                    extent
                    for piece in file.pieces
                    if piece.original
                    for extent in whole_file(scene, piece.original)
                ),
            ],
            losses=[
                Loss(
                    "byte",
                    file.size,
                    start_offset=file.start_offset + piece.pos,
                    end_offset=file.start_offset + piece.pos + file.size,
                    kept_in=piece.original,
                    valid=False,
                )
                for piece in file.pieces
                if piece.original
            ],
            write_byte_count=file.size * len(made),
        )


def _appended(scene: PlanScene) -> tuple[Appended, ...]:
    return appended_files(scene.store)


def _names_of(file: Appended) -> tuple[str, ...]:
    """The names of the files that become of the pieces; "" for one that the store has already."""
    directory = file.relative.rpartition("/")[0]
    return tuple(
        "" if piece.original else f"{directory}/{offset_to_filename(piece.start_offset)}"
        for piece in file.pieces
    )


def act_split(scene: ActScene, action: Action, arguments: FileParts) -> None:
    """Make the files, then cut."""
    tree, name, size = scene.tree, action.target, arguments.size
    if not size or tree.size(name) != size * (len(arguments.names) + 1):
        raise StoreError("no longer has the length named in the plan", path=name)
    found = {file.relative: file for file in appended_files(scene.reopen())}.get(name)
    if found is None or _names_of(found) != arguments.names:
        raise StoreError("no longer has the files appended that the plan names", path=name)
    for number, made in enumerate(arguments.names, 1):
        if made:
            _make(tree, name, made, number * size, size)
    tree.resize(name, size)


def _make(tree: WorkTree, source: str, name: str, pos: int, size: int) -> None:
    """A new file of `size` bytes, those of another one from a position on."""
    if tree.exists(name):
        raise StoreError("exists, so no file can take its name", path=name)
    tree.create(name, size)
    with FileReader(tree.place(source)) as reader:
        for start, data in reader.data_chunks(pos, pos + size):
            if any(data):
                tree.write(name, start - pos, data)
        written = reader.mtime_ns
    if not same_content(tree.place(source), tree.place(name), pos, size):
        raise StoreError("differs from the bytes that it was made of", path=name)
    tree.set_mtime(name, written)


def _places(action: Action) -> Collection[str]:
    assert isinstance(action.arguments, FileParts)
    return (action.target, *(name for name in action.arguments.names if name))


ROWS: tuple[Row, ...] = (
    Repair(
        "split-segment",
        135,
        "give files that were appended to another one their own names",
        plan_split,
        act_split,
        FileParts,
        writes_by=("commitlog_file_size",),
        answers=(RuleName.SEGMENT_LENGTH,),
        places=_places,
    ),
)
