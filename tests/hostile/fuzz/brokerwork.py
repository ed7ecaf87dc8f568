"""What a broker may have written since a repair: nothing of it may reach what undo gives back.

It appends to the last file of the log, of each queue and of the index, makes files behind them, replaces
configs by renaming, and writes over the checkpoint.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

_SPAN = 64


def work_as_a_broker(rng: random.Random, store: Path) -> int:
    """Write where a broker writes; how many files were changed or made."""
    places = [store / "commitlog", store / "index"]
    places += [
        path.parent for path in sorted(store.glob("*queue/*/*/*")) if path.is_file() and not path.is_symlink()
    ]
    count = 0
    for place in dict.fromkeys(places):
        files = _plain_files(place)
        if not files:
            continue
        count += _write_over(rng, files[-1])
        if files[-1].name.isdigit() and rng.random() < 0.5:
            following = place / f"{int(files[-1].name) + max(files[-1].stat().st_size, 1):020}"
            if not os.path.lexists(following):
                following.write_bytes(rng.randbytes(_SPAN))
                count += 1
    for name in ("checkpoint", "abort"):
        path = store / name
        if path.is_file() and not path.is_symlink():
            count += _write_over(rng, path)
    for path in _plain_files(store / "config"):
        part = path.with_name(f"{path.name}.tmp")
        if path.suffix == ".json" and not os.path.lexists(part):
            part.write_bytes(b"{}")
            part.replace(path)
            count += 1
    return count


def _plain_files(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def _write_over(rng: random.Random, path: Path) -> int:
    """Other bytes behind the first half of a file, in place."""
    size = path.stat().st_size
    if not size:
        return 0
    with path.open("r+b") as file:
        file.seek(rng.randrange(size // 2, size))
        file.write(rng.randbytes(min(_SPAN, size)))
    return 1
