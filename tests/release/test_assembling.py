"""What comes with the files of a release, and trees that must not be released."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from releasing import assemble
from tests.release.building import ROOT

VERSION = assemble.version_of(ROOT)
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
TREE = (
    "pyproject.toml", "CHANGELOG.md", "constraints.txt", "builders.txt", "releasing/executable.txt",
    "src/rocketfsck/_version.py", "docs/man/rocketfsck.1", "docs/completion/_rocketfsck",
)  # fmt: skip


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *IDENTITY, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean tree that may be released."""
    root = tmp_path / "tree"
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION}\n\n- All.\n")
    (root / ".gitignore").write_text("/build/\n")
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "-m", "all")
    return root


def test_a_clean_tree_may_be_released(tree: Path) -> None:
    _git(tree, "tag", f"v{VERSION}")
    assert assemble.refusals(tree) == []


def test_what_is_refused(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    (tree / "src" / "rocketfsck" / "_version.py").write_text('__version__ = "9.9.9"\n')
    _git(tree, "tag", "v9.9.8")
    found = assemble.refusals(tree)
    assert [line.split()[0] for line in found] == ["the", "CHANGELOG.md", "rocketfsck", "the"]
    assert "2 files differ" in found[0]
    assert "v9.9.8" in found[3]


def test_a_new_file_makes_a_tree_dirty(tree: Path) -> None:
    (tree / "new.py").touch()
    (line,) = assemble.refusals(tree)
    assert line.endswith("?? new.py first")


def test_sums_and_statement_name_every_file(tree: Path) -> None:
    built = tree / "build"
    (built / "dist").mkdir(parents=True)
    for name in ("sbom.cdx.json", "licences.txt", "dist/rocketfsck.whl", "dist/SHA256SUMS"):
        (built / name).write_text(name)
    files = assemble.assemble(built / "dist", tree)
    said = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=built / "dist", capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert {line.split(":")[0] for line in said.stdout.splitlines()} == {path.name for path in files[:-1]}
    document = json.loads((built / "dist" / assemble.STATEMENT).read_text("utf-8"))
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True)
    source = {"name": "source", "digest": {"gitCommit": head.stdout.strip()}}
    definition = document["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0] == source
    assert document["predicate"]["runDetails"]["builder"] == {"id": "local"}
    subjects = {one["name"]: one["digest"]["sha256"] for one in document["subject"]}
    assert {*subjects} == {path.name for path in files} - {assemble.SUMS, assemble.STATEMENT}
    assert subjects["rocketfsck.whl"] == assemble.sha256_of(built / "dist" / "rocketfsck.whl")
    with tarfile.open(built / "dist" / f"rocketfsck-{VERSION}-man.tar.gz") as archive:
        assert archive.getnames() == ["completion/_rocketfsck", "man/rocketfsck.1"]
