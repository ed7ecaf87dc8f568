"""Owners, permissions, ACLs and other attributes: kept, or named where they cannot be, or a refusal."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.show.repair import apply_lines
from rocketfsck.cli.show.text import Palette
from rocketfsck.errors import UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.table import ActScene
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.salvage.salvage import find_records
from rocketfsck.repair.salvage.salvage import write_store as write_salvaged
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import (
    ACCESS_ACL,
    DEFAULT_ACL,
    Traits,
    lost_traits,
    may_write,
    open_root,
    traits_of,
)

from tests.unit.repair.core.plans import REPAIRS, plan_of

MODES = pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
OWNER, GROUP, MEMBER = 12345, 23456, 34567


def acl(*named: tuple[int, int], mask: int = 6) -> bytes:
    """The bytes of an ACL: the owner may read and write, the group read, these users what is said."""
    entries = [(1, 6, 0xFFFFFFFF), *((2, rights, user) for user, rights in named), (4, 4, 0xFFFFFFFF)]
    entries += [(0x10, mask, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.fixture
def attributes(tmp_path: Path) -> None:
    """Skips where the file system of the tests has no extended attributes or no ACLs."""
    probe = tmp_path / "probe"
    probe.write_bytes(b"")
    try:
        os.setxattr(probe, "user.rocketfsck", b"1")
        os.setxattr(probe, ACCESS_ACL, acl((MEMBER, 6)))
    except (OSError, AttributeError) as error:
        pytest.skip(f"no extended attributes here: {error}")
    finally:
        probe.unlink()


def traits(root: Path) -> dict[str, Traits]:
    return {str(path.relative_to(root)): traits_of(str(path)) for path in (root, *sorted(root.rglob("*")))}


def make_more(scene: ActScene, action: Action, _arguments: Arguments) -> None:
    """A file and a directory that the store does not have, and a directory that replaces one."""
    REPAIRS["move-stray"].act(scene, action, action.arguments)
    made = scene.tree.scratch() / "config"
    made.mkdir()
    for name in scene.tree.names("config"):
        (made / name).write_bytes(scene.tree.read(f"config/{name}", 0, scene.tree.size(f"config/{name}")))
    (made / "more").write_bytes(b"more")
    scene.tree.adopt(made, "config")
    scene.tree.create("config/new/0/file", 40)
    scene.tree.create("config/other", 40)


MORE = {**REPAIRS, "move-stray": replace(REPAIRS["move-stray"], act=make_more)}


@MODES
@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
@pytest.mark.usefixtures("attributes")
@AS_ROOT
def test_root_keeps_all_of_another_users_store(
    damaged: Path, in_place: bool, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, path in enumerate([damaged, *sorted(damaged.rglob("*"))]):
        os.chown(path, OWNER, GROUP)
        path.chmod(0o2750 if path.is_dir() else 0o640)
        os.setxattr(path, "user.note", str(number).encode())
        os.setxattr(path, ACCESS_ACL, acl((MEMBER, 6)))
        if path.is_dir():
            os.setxattr(path, DEFAULT_ACL, acl((MEMBER, 6)))
    before = traits(damaged)
    if not links:
        import errno

        def watch(name: str, path: str) -> None:
            if name == "link":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)

        monkeypatch.setattr(fileops, "watch", watch)
    plan = replace(plan_of(damaged), actions=plan_of(damaged).actions[:1])
    report = apply_plan(plan, in_place=in_place, repairs=MORE, check=False)
    assert report.published and report.not_kept == ()
    after = traits(damaged)
    assert {name: found for name, found in after.items() if name in before} == {
        name: found for name, found in before.items() if name in after
    }
    new = {name: found for name, found in after.items() if name not in before}
    assert len(new) == 5
    for name, found in new.items():
        assert (found.user, found.group) == (OWNER, GROUP), name
        assert found.attributes.get(ACCESS_ACL) == acl((MEMBER, 6)), name
        assert "user.note" not in found.attributes
    undo(damaged)
    assert traits(damaged) == before


@contextmanager
def acting_as(user: int, group: int) -> Iterator[None]:
    groups = os.getgroups()
    os.setgroups([group])
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.fixture
def shared(damaged: Path) -> Iterator[Path]:
    """The damaged store of a user, in a directory that all may write to."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o777)
    root = place / "store"
    shutil.copytree(damaged, root, symlinks=True)
    shutil.copytree(f"{damaged}.good", f"{root}.good", symlinks=True)
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, GROUP)
        path.chmod(0o775 if path.is_dir() else 0o664)
    yield root
    shutil.rmtree(place)


@MODES
@AS_ROOT
def test_a_member_of_the_group_does_not_take_the_store_away(shared: Path, in_place: bool) -> None:
    """Its files would be the member's, and the broker could not write them: nothing is published."""
    plan = plan_of(shared)
    before = traits(shared)
    with acting_as(MEMBER, GROUP):
        with pytest.raises(UsageError, match=rf"user {OWNER}.*could not write.*as user {OWNER} or as root"):
            apply_plan(plan, in_place=in_place, repairs=REPAIRS, check=False)
        assert [path.name for path in shared.parent.iterdir() if ".before-" in path.name] == []
    assert traits(shared) == before


@MODES
@AS_ROOT
def test_what_is_not_kept_is_said(shared: Path, in_place: bool) -> None:
    """Where the owner can still write, because all may, the repair is done and names what changed."""
    for path in (shared, *shared.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    before, plan = traits(shared), plan_of(shared)
    with acting_as(MEMBER, GROUP):
        report = apply_plan(plan, in_place=in_place, repairs=REPAIRS, check=False)
    assert report.published
    changed = {name for name, found in traits(shared).items() if found.user != OWNER}
    said = {line.split(": ")[0] for line in report.not_kept if f"owner {OWNER}" in line}
    assert changed and changed <= {name or "." for name in said} | {"lock", "."}
    assert all(found.group == GROUP for found in traits(shared).values())
    text = "\n".join(apply_lines(report, Palette(False), 100))
    assert "could not be kept" in text and report.not_kept[0] in text
    undo(shared)
    assert traits(shared) == before


@AS_ROOT
def test_what_root_rebuilds_belongs_to_the_stores_owner(damaged: Path, tmp_path: Path) -> None:
    os.chown(damaged, OWNER, GROUP)
    into = tmp_path / "built"
    rebuild_store(
        open_store(damaged), into, RebuildOptions(queues=True, index=True, checkpoint=True, sync=False)
    )
    found = traits(into)
    assert len(found) > 10 and {(item.user, item.group) for item in found.values()} == {(OWNER, GROUP)}


@AS_ROOT
def test_what_root_salvages_belongs_to_the_stores_owner(damaged: Path, tmp_path: Path) -> None:
    os.chown(damaged, OWNER, GROUP)
    into = tmp_path / "saved"
    write_salvaged(find_records([damaged], SalvageOptions(sync=False)), into)
    found = traits(into)
    assert len(found) > 10 and {(item.user, item.group) for item in found.values()} == {(OWNER, GROUP)}


def written_store(root: Path, count: int, *, append: bool = False, overwrite: bool = False) -> None:
    options = WriteOptions(sync=False, geometry=Geometry(2048, 200, slot_count=11, entry_count=24))
    messages = [
        OutgoingMessage(f"T{number}", b"x" * 99, 1_700_000_000_000 + number) for number in range(count)
    ]
    write_store(root, messages, options, append=append, overwrite=overwrite)


def test_what_is_appended_has_the_traits_of_the_store(tmp_path: Path) -> None:
    """Modes stand for owners, which only root can give."""
    root = tmp_path / "store"
    written_store(root, 20)
    for path in (root, *root.rglob("*")):
        path.chmod(0o2770 if path.is_dir() else 0o660)
    before = traits(root)
    written_store(root, 25, append=True)
    after = traits(root)
    assert all(after[name] == found for name, found in before.items())
    assert {"consumequeue/T24", f"commitlog/{4096:020}"} <= after.keys() - before.keys()
    new = [found for name, found in after.items() if name.startswith(("commitlog", "consumequeue/T24"))]
    assert {item.mode for item in new} == {0o2770, 0o660, 0o644}  # the last: a file with none beside it
    written_store(root, 3, overwrite=True)
    assert {item.mode for item in traits(root).values()} == {0o2770, 0o660}


@AS_ROOT
def test_what_root_appends_belongs_to_the_stores_owner(tmp_path: Path) -> None:
    root = tmp_path / "store"
    written_store(root, 20)
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, GROUP)
    written_store(root, 25, append=True)
    found = traits(root)
    assert {(item.user, item.group) for item in found.values()} == {(OWNER, GROUP)}


def test_who_may_write() -> None:
    def made(mode: int, **more: bytes) -> Traits:
        return Traits(OWNER, GROUP, mode, dict(more))

    assert may_write(0, made(0))
    assert may_write(OWNER, made(0o200)) and not may_write(OWNER, made(0o066))
    assert may_write(MEMBER, made(0o002)) and not may_write(MEMBER, made(0o664))
    assert not may_write(OWNER + 1, Traits(0, 0, 0o664, {}))
    assert may_write(MEMBER, made(0o660, **{ACCESS_ACL: acl((MEMBER, 6))}))
    assert not may_write(MEMBER, made(0o662, **{ACCESS_ACL: acl((MEMBER, 4))}))
    assert not may_write(MEMBER, made(0o662, **{ACCESS_ACL: acl((MEMBER, 6), mask=4)}))
    assert not may_write(MEMBER, made(0o640, **{ACCESS_ACL: b"\1\2\3"}))


def test_what_is_lost_is_named() -> None:
    wanted = Traits(1, 2, 0o640, {"user.a": b"1", "user.b": b"2"})
    assert lost_traits(wanted, wanted) == ()
    assert lost_traits(wanted, Traits(3, 4, 0o600, {"user.a": b"1", "user.c": b"2"})) == (
        "owner 1",
        "group 2",
        "mode 0640",
        "attribute user.b",
        "attribute user.c",
    )


@pytest.mark.usefixtures("attributes")
def test_attributes_that_were_inherited_go(tmp_path: Path) -> None:
    """A copy in a directory with a default ACL has none if the file has none."""
    (tmp_path / "source").write_bytes(b"x")
    inner = tmp_path / "inner"
    inner.mkdir()
    os.setxattr(inner, DEFAULT_ACL, acl((MEMBER, 6)))
    fileops.copy(str(tmp_path / "source"), open_root(inner) / "copy")
    assert traits_of(str(inner / "copy")) == traits_of(str(tmp_path / "source"))
