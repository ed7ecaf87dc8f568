"""What is installed with rocketfsck: a CycloneDX document and a list of licences, from the metadata.

    python .ci/sbom.py OUT.cdx.json OUT.txt [PACKAGE…]

The packages that PACKAGE needs (default: rocketfsck with what its commands use), with version and licence.
Needs no network. Exit status 1: a package names no licence.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOTS = ("rocketfsck[browse,codecs,remote,rocksdb,spark,tables]",)
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_UNNAMED = ("", "UNKNOWN")


def needed(roots: tuple[str, ...]) -> dict[str, Distribution]:
    """The installed packages that these need, themselves too, by their names in small letters."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(roots)
    while waiting:
        match = _REQUIREMENT.match(waiting.pop().strip())
        if match is None:
            continue
        extras = frozenset(re.split(r"[,\s]+", match[2])) if match[2] else frozenset()
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(match[1])
        except PackageNotFoundError:  # for another platform or Python
            continue
        waiting += _wanted(found[name], extras)
    return dict(sorted(found.items()))


def _wanted(package: Distribution, extras: frozenset[str]) -> Iterator[str]:
    for line in package.requires or ():
        marker = line.partition(";")[2]
        asked = _EXTRA.findall(marker)
        if not asked or extras & {*asked}:
            yield line


def licence_of(package: Distribution) -> str:
    """What a package says of its licence, in one line; "" if nothing."""
    about = package.metadata
    expression = about.get("License-Expression") or ""
    classified = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    text = (about.get("License") or "").strip().split("\n")[0]
    return next((said for said in (expression, ", ".join(classified), text) if said not in _UNNAMED), "")


def component(name: str, package: Distribution) -> Mapping[str, Any]:
    """A package as CycloneDX has it."""
    licence = licence_of(package)
    purl = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.metadata["Name"],
        "version": package.version,
        "purl": purl,
        "licenses": [{"license": {"name": licence}}] if licence else [],
    }


def main(document: str, listed: str, *roots: str) -> int:
    packages = needed(roots or ROOTS)
    components = [component(name, package) for name, package in packages.items()]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": next(one for one in components if one["name"] == "rocketfsck")},
        "components": [one for one in components if one["name"] != "rocketfsck"],
    }
    for path in (document, listed):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(document).write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n", "utf-8")
    lines = [
        f"{name} {one.version}: {licence_of(one) or 'names no licence'}" for name, one in packages.items()
    ]
    Path(listed).write_text("\n".join(lines) + "\n", "utf-8")
    unnamed = [name for name, one in packages.items() if not licence_of(one)]
    print(f"{document}: {len(packages)} packages")
    if unnamed:
        print(f"no licence is named by {', '.join(unnamed)}", file=sys.stderr)
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
