"""What is next to the files of a release: sums, provenance, licences, manual pages. `make release` runs it.

    python -m releasing.assemble --check       refuse what must not be released: exit status 1, reasons
    python -m releasing.assemble DIRECTORY     add the rest to wheel, archive and executable

    DIRECTORY/rocketfsck-VERSION-man.tar.gz    manual pages and completions, for the executable's users
    DIRECTORY/sbom.cdx.json, licences.txt      of `make sbom`
    DIRECTORY/provenance.intoto.json           an in-toto statement with a SLSA 1.0 predicate
    DIRECTORY/SHA256SUMS                       of all the others, for `sha256sum --check`

The statement has no signature: a forge's workflow signs one of its own (.github/workflows/release.yml).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SUMS, STATEMENT = "SHA256SUMS", "provenance.intoto.json"
SHARED = ("docs/man", "docs/completion")
BUILDER = "local"


def version_of(root: Path) -> str:
    """The version that pyproject.toml names."""
    return str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def refusals(root: Path) -> list[str]:
    """Why this tree must not be released; empty if it may."""
    version = version_of(root)
    found = []
    changed = _git(root, "status", "--porcelain").splitlines()
    if changed:
        found.append(
            f"the tree is dirty: {len(changed)} files differ from the commit, {changed[0].strip()} first"
        )
    if not re.search(
        rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    ):
        found.append(f"CHANGELOG.md has no section {version!r}: rename the section Unreleased")
    stated = re.search(
        r'__version__ = "([^"]+)"', (root / "src" / "rocketfsck" / "_version.py").read_text("utf-8")
    )
    if stated is not None and stated[1] != version:
        found.append(f"rocketfsck says that its version is {stated[1]}, and pyproject.toml {version}")
    tags = [tag for tag in _git(root, "tag", "--points-at", "HEAD").splitlines() if tag.startswith("v")]
    if tags and f"v{version}" not in tags:
        found.append(f"the commit has the tag {tags[0]}, and the version is {version}")
    return found


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def statement(files: Iterable[Path], root: Path) -> dict[str, Any]:
    """Where the files come from: an in-toto statement with the predicate of SLSA 1.0."""
    commit = _git(root, "rev-parse", "HEAD")
    materials = ("constraints.txt", "builders.txt", "releasing/executable.txt")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256_of(path)}} for path in sorted(files)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"version": version_of(root), "machine": platform.machine()},
                "internalParameters": {
                    "python": platform.python_version(),
                    "SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct"),
                },
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": name, "digest": {"sha256": sha256_of(root / name)}} for name in materials),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}, "metadata": {"invocationId": commit}},
        },
    }


def write_pages(path: Path, root: Path) -> None:
    """Write manual pages and completions as an archive: the same pages give the same bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for page in sorted(page for folder in SHARED for page in (root / folder).iterdir()):
            entry = tarfile.TarInfo(f"{page.parent.name}/{page.name}")
            entry.size, entry.mode = page.stat().st_size, 0o644
            archive.addfile(entry, io.BytesIO(page.read_bytes()))
    path.write_bytes(gzip.compress(stream.getvalue(), mtime=0))


def assemble(directory: Path, root: Path) -> list[Path]:
    """Add to a directory what belongs next to the files in it; all files of the release."""
    write_pages(directory / f"rocketfsck-{version_of(root)}-man.tar.gz", root)
    for name in ("sbom.cdx.json", "licences.txt"):
        shutil.copyfile(root / "build" / name, directory / name)
    for name in (SUMS, STATEMENT):
        (directory / name).unlink(missing_ok=True)
    document = statement([path for path in directory.iterdir() if path.is_file()], root)
    (directory / STATEMENT).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    files = sorted(path for path in directory.iterdir() if path.is_file())
    (directory / SUMS).write_text("".join(f"{sha256_of(path)}  {path.name}\n" for path in files), "utf-8")
    return [*files, directory / SUMS]


def main(argument: str) -> int:
    """Refuse or assemble; the exit status."""
    if argument == "--check":
        found = refusals(ROOT)
        for line in found:
            print(f"not released: {line}", file=sys.stderr)
        return 1 if found else 0
    for path in assemble(Path(argument), ROOT):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
