"""`--mask` and `--mask-key`, for commands whose output can be shared; nothing is loaded without them."""

from __future__ import annotations

import hashlib
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.cli.params import Decorator, Function

KEY_SIZES = (16, 4096)


def read_key(path: Path) -> bytes:
    """The secret that a key file gives. Raises UsageError for a file that is too short or too long."""
    low, high = KEY_SIZES
    with path.open("rb") as stream:
        data = stream.read(high + 1)
    if not low <= len(data) <= high:
        raise UsageError(f"--mask-key: the file must have {low} to {high:,} bytes, chosen at random")
    return hashlib.sha256(data).digest()


def mask_options(function: Function) -> Function:
    """`--mask` and `--mask-key`; the command gets `masks`, None where nothing is masked."""

    @wraps(function)
    def run(*args: Any, mask: bool, mask_key: Path | None, **given: Any) -> Any:
        masks = None
        if mask or mask_key is not None:
            from rocketfsck.cli.masks import Masks

            masks = Masks() if mask_key is None else Masks(read_key(mask_key))
        return function(*args, masks=masks, **given)

    key: Decorator = click.option(
        "--mask-key",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Mask with this key (16 to 4,096 random bytes), so that all runs have the same masks.",
    )
    flag: Decorator = click.option(
        "--mask",
        is_flag=True,
        help="For sharing: masks for names, tags, keys, properties, bodies and addresses.",
    )
    return flag(key(run))
