"""The package as an archive that `spark-submit --py-files` takes to executors.

    python -m rocketfsck.engine.archive FOLDER     makes FOLDER/rocketfsck.zip and FOLDER/rocketfsck_submit.py

The second is the application: `spark-submit --py-files rocketfsck.zip rocketfsck_submit.py check STORE`. The
archive holds what this package is made of and none of what it needs: executors must have `guard.NEEDED`. Same
package, same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from rocketfsck.errors import UsageError

PACKAGES = ("rocketfsck", "pyspark_rocketmq")
ARCHIVE_NAME = "rocketfsck.zip"
SCRIPT_NAME = "rocketfsck_submit.py"
SCRIPT = '''\
"""The command rocketfsck as an application of spark-submit; its arguments are those of the command."""

from rocketfsck.cli import main

if __name__ == "__main__":
    main()
'''
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(folder: Path) -> tuple[Path, Path]:
    """Write the archive and the script into a folder; their paths. Raises UsageError where that fails."""
    archive, script = folder / ARCHIVE_NAME, folder / SCRIPT_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{ARCHIVE_NAME}.part"
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
            for package in PACKAGES:
                _add(target, resources.files(package), package)
        part.replace(archive)
        script.write_text(SCRIPT, "utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written to: {error.strerror}") from error
    return archive, script


def _add(target: zipfile.ZipFile, entry: Traversable, name: str) -> None:
    if entry.is_dir():
        for child in sorted(entry.iterdir(), key=lambda child: child.name):
            if child.name != "__pycache__":
                _add(target, child, f"{name}/{child.name}")
        return
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    target.writestr(info, entry.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rocketfsck.engine.archive FOLDER")
    try:
        for path in write_archive(Path(sys.argv[1])):
            print(path)
    except UsageError as error:
        sys.exit(str(error))
