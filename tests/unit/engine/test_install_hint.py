"""Install hints name packages: a name in brackets works only once the project is published."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from rocketfsck.errors import EXTRAS, install_hint

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_every_optional_part_has_a_hint() -> None:
    assert set(EXTRAS) == set(OPTIONAL) - {"dev"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_names_the_packages_of_the_project(extra: str) -> None:
    pip, install, *packages = shlex.split(install_hint(extra))
    assert (pip, install) == ("pip", "install")
    assert len(packages) == len(OPTIONAL[extra])
    for package, wanted in zip(sorted(packages), sorted(OPTIONAL[extra]), strict=True):
        # an upper bound is part of the hint; a lower one is not, as pip takes the newest
        assert wanted == package if "<" in wanted else wanted.startswith(f"{package}>=")
