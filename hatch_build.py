"""Compiles the kernels into a wheel, where ROCKETFSCK_BUILD_KERNELS asks for it (`make wheel`).

`aarch64` or `x86_64` there names another machine than this one; CC is then the compiler for that machine.
Such a wheel is for every Python from 3.11 on and one kind of machine, and needs neither Numba nor a compiler.
Without the variable the wheel has the source of the kernels only, and any machine takes it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAGS = {
    "x86_64": "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "aarch64": "py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
}
"""The libraries of kernels need nothing of the system, not even its C library's version."""


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Puts `kernels-PROCESSOR.so` for each processor of this machine into the package."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a wheel is built."""
        wanted = os.environ.get("ROCKETFSCK_BUILD_KERNELS")
        if version != "standard" or not wanted:
            return
        source = Path(self.root) / "src"
        sys.path.insert(0, os.fspath(source))
        from rocketfsck.scan.machine.library import BUILT, PROCESSORS, library_name

        machine = wanted if wanted in TAGS else platform.machine()
        for name in (name for name, kind in PROCESSORS.items() if kind.machine == machine):
            place = Path(self.root) / "build" / "kernels" / name
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [sys.executable, "-m", "rocketfsck.scan.machine.ahead", name, place],
                env={**os.environ, "PYTHONPATH": os.fspath(source)},
                check=True,
            )
            library = library_name(name)
            build_data["force_include"][os.fspath(place / library)] = (
                f"rocketfsck/scan/machine/{BUILT}/{library}"
            )
        build_data["pure_python"] = False
        build_data["tag"] = TAGS[machine]
