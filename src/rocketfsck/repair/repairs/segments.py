"""Repairs of what is in a store's directories: lengths, strays, twins, empty files, times.

Nothing is deleted: what does not belong is set aside. Fault catalogue C6, C7, C11, Q10; reference 1.2, 1.3.

Commit log files to which others were appended: each gets its own length and name again.

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
from rocketfsck.repair.log import first_record_of, read_log_end
from rocketfsck.repair.plan.arguments import Arguments, FileParts, NewSize
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs import answers, misnamed
from rocketfsck.repair.repairs.fences import end_file, fence_file, resized
from rocketfsck.repair.repairs.queues import act_set_aside, rebuild_queues
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.store.misnamed import Appended, appended_files, same_content
from rocketfsck.verify.store.segments import PREALLOCATED_LIMIT

_HEAD_SIZE = 1 << 20
"""Bytes of each piece that must be those of the plan."""


def plan_split(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """One action a file; it answers its length and what else follows from it, too."""
    wanted = {finding.where.file for finding in answers.one_by_one(findings)}
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
        yield answers.answer(
            "split-segment",
            file.relative,
            note,
            [*own, *(finding for finding in scene.findings if misnamed.claims(finding))],
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
                    for extent in answers.whole_file(scene, piece.original)
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
    for place, made in enumerate(arguments.names, 1):
        if made:
            _make(tree, name, made, place * size, size)
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


APPENDED_ROWS: tuple[Row, ...] = (
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


_QUEUE_AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")


def plan_stray(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Set aside what does not belong; a commit log file under a wrong name gets the right one."""
    yield from misnamed.plan_rename(scene, findings)
    renamed = {name for item in scene.once(misnamed.pending_renames) for name in (item.circle or (item.old,))}
    lost = RuleName.COMMITLOG_MISSING in answers.rules_in(scene)
    for finding in answers.one_by_one(findings):
        name = finding.where.file
        if name in renamed:
            continue
        if lost and name.startswith("commitlog/"):
            continue  # it may be the log: a broker that does not refuse to start deletes all queues
        yield answers.answer(
            "move-stray",
            name,
            "move it aside: brokers would take it for a part of the store",
            answers.of_file(findings, name),
            preconditions=answers.whole_file(scene, name),
            notices=[answers.notice("index-file-unloaded", 1)] if finding.rule == RuleName.INDEX_NAME else [],
        )


def plan_resize(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Files of a wrong length: zeros are added or taken away, an empty file after the last goes."""
    if misnamed.is_unsettled(scene):
        return
    cut_queues_too = False
    yield from _never_filled(scene, findings)
    for finding in answers.one_by_one(findings):
        if finding.rule == RuleName.SEGMENTS_NEVER_FILLED:
            continue
        name = finding.where.file
        area = name.partition("/")[0]
        file = answers.log_file(scene.store, name)
        empty = finding.rule == RuleName.EMPTY_LAST_SEGMENT or answers.number(finding.found, "size", -1) == 0
        if empty and (file is None or file is scene.store.commitlog.files[-1]):
            yield _set_aside_empty(scene, finding)
            continue
        if area in _QUEUE_AREAS and answers.queue_of(finding) is not None and _is_cut_inside(scene, finding):
            cut_queues_too = True
        size = resized(scene, finding)
        if size is None:
            continue
        yield answers.answer(
            "resize-segment",
            name,
            f"set the file's length to {count_of(size, 'byte')}; {_what_changes(scene, name, size)}",
            answers.of_file(findings, name),
            arguments=NewSize(size),
            preconditions=answers.whole_file(scene, name),
            write_byte_count=size,
        )
        if file is not None:
            yield from fence_file(scene, file)
            if any(own.rule == RuleName.BLANK_MISSING for own in answers.of_file(scene.findings, name)):
                yield from end_file(scene, file)
    if cut_queues_too:
        yield from rebuild_queues(scene)


def _what_changes(scene: PlanScene, name: str, size: int) -> str:
    """What another length adds to a file, or takes from it."""
    if misnamed.is_zero(scene, name, size):
        return "only zeros are added or cut off"
    return "the bytes after it are too few for a record"


def _never_filled(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Files of zeros behind the log, but for those that a broker makes in advance."""
    why = [finding for finding in findings if finding.rule == RuleName.SEGMENTS_NEVER_FILLED]
    if not why:
        return
    start = why[0].where.physical_offset or 0
    zero = [file for file in scene.store.commitlog.files if (file.start_offset or 0) >= start]
    for file in zero[PREALLOCATED_LIMIT:]:
        if misnamed.is_zero(scene, file.relative):
            yield answers.answer(
                "remove-empty-segment",
                file.relative,
                "move the file aside: it was never written to",
                why,
                preconditions=answers.whole_file(scene, file.relative),
            )


def _is_cut_inside(scene: PlanScene, finding: Finding) -> bool:
    own = answers.of_file(scene.findings, finding.where.file)
    return any(other.rule == RuleName.UNIT_PARTIAL for other in own)


def _set_aside_empty(scene: PlanScene, finding: Finding) -> Action:
    return answers.answer(
        "remove-empty-segment",
        finding.where.file,
        "move the file aside: it is empty",
        [finding],
        preconditions=answers.whole_file(scene, finding.where.file),
    )


def act_resize(scene: ActScene, action: Action, arguments: NewSize) -> None:
    """Set the length."""
    scene.tree.resize(action.target, arguments.size)


def plan_twins(scene: PlanScene, _findings: Sequence[Finding]) -> Iterator[Action]:
    """Of two commit log files of one name the one that is all zeros goes; two with data are left."""
    for name, finding in scene.once(misnamed.leaving_twins).items():
        yield answers.answer(
            "move-zero-twin",
            name,
            "move the file aside: it is all zeros, and another file of the same name holds the records",
            [finding, *(other for other in scene.findings if misnamed.claims(other))],
            preconditions=answers.whole_file(scene, name),
        )


def plan_copies(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Copies at the end of the log, and files of zeros after them. A copy that records follow stays."""
    copies = {finding.where.file: finding for finding in answers.one_by_one(findings)}
    after: list[MappedFile] = []
    for file in reversed(scene.store.commitlog.files):
        finding = copies.get(file.relative)
        if finding is not None:
            yield _set_aside_copy(scene, file, finding)
            for zero in after:
                yield answers.answer(
                    "move-copied-segment",
                    zero.relative,
                    "move the file aside: it is empty, and a copy is in front of it",
                    [finding],
                    preconditions=answers.whole_file(scene, zero.relative),
                )
            after = []
        elif misnamed.is_zero(scene, file.relative):
            after.append(file)
        else:
            return


def _set_aside_copy(scene: PlanScene, file: MappedFile, finding: Finding) -> Action:
    original = str(finding.found["original"])
    start = file.start_offset or 0
    return answers.answer(
        "move-copied-segment",
        file.relative,
        f"move the file aside: {original} has the same records",
        [finding],
        preconditions=[*answers.whole_file(scene, file.relative), *answers.whole_file(scene, original)],
        losses=[
            Loss(
                "record",
                answers.number(finding.found, "record_count"),
                start_offset=start,
                end_offset=start + file.size,
                kept_in=original,
                valid=False,
            )
        ],
    )


def plan_extension(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Extension files whose queue is gone, unless that is built again."""
    rebuilt = {
        answers.queue_of(finding) for finding in scene.findings if finding.rule == RuleName.QUEUE_MISSING
    }
    for finding in answers.one_by_one(findings):
        if answers.queue_of(finding) in rebuilt:
            for action in rebuild_queues(scene):
                yield answers.also_answering(action, [finding])
            continue
        yield answers.answer(
            "remove-extension",
            finding.where.file,
            "move the extension files aside: their queue is gone",
            [finding],
        )


def plan_times(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Times of modification that say when the store was copied."""
    if findings:
        yield answers.answer(
            "restore-times",
            "commitlog",
            "set the modification time of each commit log file to that of its last record",
            findings,
            notices=[answers.notice("retention-moved", len(scene.store.commitlog.files))],
        )


def act_times(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    """A file was last written when the first record of the next one came."""
    store = scene.reopen()
    following: int | None = None
    for file in reversed(store.commitlog.files):
        found = first_record_of(store, file)
        if found is None:
            continue
        if following is None:
            end = read_log_end(store)
            following = end.store_timestamp if end is not None else None
        if following is not None and following > 0:
            scene.tree.set_mtime(file.relative, following * 1_000_000)
        following = found.store_timestamp


ROWS: tuple[Row, ...] = (
    Repair(
        "move-stray",
        110,
        "move aside what does not belong in the store",
        plan_stray,
        act_set_aside,
        Arguments,
    ),
    Repair("move-zero-twin", 120, "move aside an all-zero twin", plan_twins, act_set_aside, Arguments),
    Repair(
        "move-copied-segment",
        125,
        "move aside a copy of another commit log file",
        plan_copies,
        act_set_aside,
        Arguments,
    ),
    Repair(
        "remove-empty-segment",
        130,
        "move aside an empty file",
        plan_resize,
        act_set_aside,
        Arguments,
        answers=(RuleName.SEGMENT_LENGTH,),
    ),
    Repair(
        "resize-segment",
        140,
        "set a file to its length",
        plan_resize,
        act_resize,
        NewSize,
        writes_by=("commitlog_file_size", "consumequeue_file_size", "batch_file_size", "ext_file_size"),
        # zeros in the middle of the log, behind which nothing is read any more
        needs_beside=("salvage-log", "write-blank"),
    ),
    Repair(
        "remove-extension",
        150,
        "move aside extension files without a queue",
        plan_extension,
        act_set_aside,
        Arguments,
    ),
    Repair("restore-times", 900, "set modification times by the records", plan_times, act_times, Arguments),
)
