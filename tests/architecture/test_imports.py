"""Which way imports go, and what is imported before anybody needs it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import MODULES, ROOT, nodes_of, taken_by
from tests.conftest import Directory

HOMES = {
    # whoever imports the left when it is imported itself, wherever in the module, is in the right
    "numba": ("scan/machine/",),
    "llvmlite": ("scan/",),
    "construct": ("formats/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "pytest": ("testing/",),
    "hypothesis": ("testing/",),
    "pyspark": ("engine/daemon.py", "engine/session.py", "engine/spark.py", "pipeline/"),
}
ARROW = ("scan/views/arrow.py", "writer/", "pipeline/", "engine/", "testing/")
"""Where pyarrow, whose import costs more than all of ours, is imported at once: modules of Arrow data, which
are imported late themselves."""

LIGHT = ("numba", "llvmlite", "pyarrow", "pyspark", "rich", "hypothesis", "pytest")


def _packages(module: str, *, inside: bool) -> set[str]:
    """The packages that a module imports when it is run; with `inside` in functions, too. Not for types."""
    return {
        taken.name.split(".")[0]
        for taken in taken_by(module)
        if not taken.is_for_types and (inside or not taken.is_late)
    }


def test_the_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 broken" in ended.stdout


def test_a_contract_that_is_broken_is_seen(tmp_path: Path) -> None:
    """The contracts can fail: a store that judges is refused."""
    config = (ROOT / "pyproject.toml").read_text("utf-8")
    start = config.index("[tool.importlinter]")
    package = tmp_path / "rocketfsck"
    for name in ("", "cli", "commands", "common", "testing", "repair", "verify", "query", "writer", "reader",
                 "scan", "store", "engine", "formats", "page", "pipeline"):  # fmt: skip
        (package / name).mkdir(exist_ok=True)
        (package / name / "__init__.py").touch()
    (package / "errors.py").touch()
    for name in ("api", "storedmessage", "opened", "progress"):
        (package / f"{name}.py").touch()
    (package / "pipeline" / "fleet").mkdir()
    for name in ("__init__", "run"):
        (package / "pipeline" / "fleet" / f"{name}.py").touch()
    (package / "__init__.py").write_text(
        "import rocketfsck.api, rocketfsck.opened, rocketfsck.pipeline.fleet.run, rocketfsck.storedmessage\n"
    )
    (package / "store" / "__init__.py").write_text("import rocketfsck.verify\n")
    (tmp_path / "pyproject.toml").write_text(config[start:])
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [linter, "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "layers BROKEN" in ended.stdout, ended.stdout + ended.stderr


def test_libraries_stay_at_home() -> None:
    strayed = [
        (module, package)
        for module in MODULES
        for package in sorted(_packages(module, inside=True) & HOMES.keys())
        if not module.startswith(HOMES[package])
    ]
    assert strayed == []


def test_arrow_is_imported_late() -> None:
    early = [module for module in MODULES if "pyarrow" in _packages(module, inside=False)]
    assert [module for module in early if not module.startswith(ARROW)] == []
    assert early  # or this test looks at nothing


def test_no_private_name_of_another_module() -> None:
    private = [
        (module, f"{node.module}.{alias.name}")
        for module in MODULES
        for node in nodes_of(module)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rocketfsck")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert private == []


SMALL = (
    "commitlog/00000000000000000000",
    "consumequeue/{topic}/0/00000000000000000000",
    "index/{index}",
    "checkpoint",
    "config/topics.json",
)
WATCH = f"""
import json, sys
from rocketfsck.cli.app import run
for arguments in json.loads(sys.argv[1]):
    found = run(arguments), [name for name in {LIGHT} if name in sys.modules]
    if found != (0, []):
        sys.exit(f"{{arguments}} {{found}}")
"""
"""Runs command lines and ends at the first that fails or leaves one of the libraries imported."""


def test_help_and_small_files_without_heavy_libraries(store_dir: Directory) -> None:
    store = store_dir("5.3.3-basic")
    topic = next(
        path.name for path in sorted((store / "consumequeue").iterdir()) if (path / "0" / ("0" * 20)).exists()
    )
    lines = [["--help"], ["check", "--help"], ["explain", "CL001"], ["info", str(store)]]
    for place in SMALL:
        file = str(store / place.format(topic=topic, index=min((store / "index").iterdir()).name))
        lines += [["dump", file], ["dump", file, "--hex", "--limit", "2"], ["info", file]]
    ended = subprocess.run(
        [sys.executable, "-c", WATCH, json.dumps(lines)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
