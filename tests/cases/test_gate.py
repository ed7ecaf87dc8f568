"""`check --gate`, which stands in front of a broker's start."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli, cli  # noqa: F401 - a fixture


@pytest.mark.parametrize("name", ["4.9.8-multiseg", "5.3.3-basic", "4.9.8-killed"])
def test_a_start_that_takes_nothing_passes(cli: Cli, store_dir: Directory, name: str) -> None:  # noqa: F811
    assert cli("check", "--gate", store_dir(name)).code == 0


def test_damage_that_a_start_leaves_alone_passes(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:  # noqa: F811
    root = tmp_path / "store"
    shutil.copytree(store_dir("4.9.8-multiseg"), root)
    first = min(path for path in (root / "commitlog").iterdir() if path.name.isdigit())
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    assert cli("check", root).code == 4
    assert cli("check", "--gate", root).code == 0


def test_a_start_that_cuts_sound_messages_does_not_pass(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-basic"), root, ["boundary-lost"], 1, write_truth=False)
    ended = cli("check", "--gate", root)
    assert ended.code == 4
    assert ended.out.startswith("Do not start a broker")


def test_what_is_no_store_does_not_pass(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "store").mkdir()
    assert cli("check", "--gate", tmp_path / "store").code == 8


def test_a_gate_looks_at_one_store_as_it_is(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:  # noqa: F811
    root = store_dir("4.9.8-multiseg")
    assert cli("check", "--gate", root, root).code == 16
    assert cli("check", "--gate", "--since", tmp_path / "state", root).code == 16


@pytest.mark.parametrize("name", ["rocketmq-broker.service", "statefulset.yaml"])
def test_the_examples_ask_for_the_store_that_they_mount(cli: Cli, store_dir: Directory, name: str) -> None:  # noqa: F811
    text = (Path(__file__).parents[2] / "examples" / "gate" / name).read_text()
    found = re.search(r"exec rocketfsck (check --gate [^'\"]*)", text)
    assert found is not None
    *options, conf, store = shlex.split(found[1])
    assert options == ["check", "--gate", "--broker-conf"]
    rest = text.replace(found[1], "")
    assert conf in rest or str(Path(conf).parent) in rest
    assert store in rest or str(Path(store).parent) in rest
    assert cli(*options[:2], store_dir("4.9.8-basic")).code == 0


def test_a_gate_claims_the_rules_of_its_level_alone(cli: Cli, store_dir: Directory) -> None:  # noqa: F811
    root = store_dir("4.9.8-basic")
    gate, quick = (
        cli("check", *level, "--format", "junit", root).out.count("<testcase ")
        for level in (["--gate"], ["--level", "quick"])
    )
    assert gate == quick
