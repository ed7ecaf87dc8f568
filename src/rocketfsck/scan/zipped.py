"""The sources of this folder, wherever they lie: a package may be imported from an archive (`--py-files`).

Numba keeps compiled code only of functions that are in a file, so one from an archive is given a copy of its
module beside the compiled code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, cast

_FOLDER = Path(__file__).parent
_TIME = (946_684_800, 946_684_800)  # Numba knows a file by its time, too: the same from every process


def sources() -> list[tuple[str, bytes]]:
    """Name and content of every module of this folder, by name."""
    if _FOLDER.is_dir():
        return [(path.name, path.read_bytes()) for path in sorted(_FOLDER.glob("*.py"))]
    entries = _archive().iterdir()
    return sorted((entry.name, entry.read_bytes()) for entry in entries if entry.name.endswith(".py"))


def put_on_disk(function: Callable[..., Any], directory: Path) -> bool:
    """Whether the function's file is there; where it is not, a copy in `directory` becomes its file.

    `directory` must be of this very set of sources.
    """
    function = cast(FunctionType, function)
    file = Path(function.__code__.co_filename)
    if file.exists():
        return True
    copy = directory / "sources" / file.name
    try:
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            part = copy.with_name(f"{file.name}.{os.getpid()}")
            part.write_bytes((_archive() / file.name).read_bytes())
            os.utime(part, _TIME)
            part.replace(copy)
    except OSError:
        return False
    function.__code__ = function.__code__.replace(co_filename=str(copy))
    return True


def _archive() -> Any:
    from importlib import resources

    return resources.files(__package__)
