"""Builds what the generator reads, or looks through what it wrote.

python -m docs.site symptoms  docs/symptoms.md
python -m docs.site stage     build/pages and build/zensical.toml
python -m docs.site audit     build/site: links, anchors, what is loaded; 1 where something is wrong
python -m docs.site translated [PAGE...]  docs/zh: what is stale; with pages: take them as translated
"""

from __future__ import annotations

import sys

from docs.site import audit, reference, stage, symptoms, translated
from docs.site.places import REFERENCE, SITE


def main(arguments: list[str]) -> int:
    """Do what the one argument says; the exit status."""
    match arguments:
        case ["symptoms"]:
            symptoms.PAGE.write_text(symptoms.symptoms_page(), "utf-8")
            return 0
        case ["stage"]:
            stage.stage({f"{REFERENCE}/{name}": text for name, text in reference.reference_pages().items()})
            stage.write_config()
            return 0
        case ["audit"]:
            found = list(audit.faults(SITE))
            for fault in found:
                print(fault, file=sys.stderr)
            return 1 if found else 0
        case ["translated", *names]:
            for name in names:
                translated.accept(name)
            stale = list(translated.faults())
            print("\n".join(stale), end="\n" if stale else "", file=sys.stderr)
            return 1 if stale else 0
    print(__doc__, file=sys.stderr)
    return 16


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
