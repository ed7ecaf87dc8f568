"""What `make sizes` counts, and which feature a module belongs to."""

from __future__ import annotations

from benchmarks import sizes

MODULE = '''"""A docstring
of two lines."""

from a import (
    b,
)

# a comment
LIMIT = 3
"""What it is."""


def function(
    one: int,
) -> int:
    """What it does."""
    return call(
        one,
        call(LIMIT),
    )
'''


def test_lines_of_code_have_kinds() -> None:
    """Three lines of imports, a constant, three of a signature, four of a call, one of them an argument."""
    assert sizes.sizes_of(MODULE) == sizes.Sizes(lines=11, imports=3, signatures=3, arguments=1)


def test_a_module_has_the_first_feature_that_fits_else_its_room() -> None:
    assert sizes.feature_of("src/rocketfsck/query/start/tiered.py") == "simulated starts"
    assert sizes.feature_of("tests/unit/query/test_tiered.py") == "query"
    assert sizes.feature_of("src/rocketfsck/engine/seam.py") == "other: engine"
    assert sizes.feature_of("tests/unit/formats/test_layout.py") == "other: formats"


def test_the_page_counts_every_line_once() -> None:
    modules = {
        "src/rocketfsck/engine/seam.py": sizes.Sizes(10, 2, 1, 0),
        "src/rocketfsck/query/keys.py": sizes.Sizes(30, 2, 1, 0),
        "tests/unit/query/test_keys.py": sizes.Sizes(7, 2, 1, 0),
    }
    page = sizes.page_of(modules)
    assert "Source: 40 lines in 2 modules; tests: 7 lines." in page
    assert page.endswith("| query | 1 | 30 | 7 |\n| other: engine | 1 | 10 | 0 |\n")
