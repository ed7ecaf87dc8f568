"""The committed readers are what the specs compile to."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess

import pytest

from tests.kaitai.kaitai_readers import GENERATED, HERE, KSY


def test_a_reader_for_every_spec() -> None:
    specs = {path.stem for path in KSY.glob("*.ksy")}
    assert {path.stem for path in GENERATED.glob("rocketmq_*.py")} == specs
    assert len(specs) >= 20


def test_readers_were_compiled_from_these_specs() -> None:
    known = json.loads((GENERATED / "sources.json").read_text())
    assert known
    assert known == {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in KSY.glob("*.ksy")}


def test_readers_compile_to_the_same_text() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the compiled readers were not compared with the specs")
    if not (HERE / "node_modules" / "kaitai-struct-compiler").is_dir():
        pytest.skip("the Kaitai compiler is not installed: run `npm ci` in tests/kaitai")
    done = subprocess.run(
        [node, str(HERE / "build.mjs"), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
