"""Every screen is as it was: the pictures of the guide, and of stores of all kinds of damage.

`make pictures` draws them anew; look at them before you commit.
"""

from __future__ import annotations

import re

import pytest

from tests.pictures import GUIDE, ROOT, SCREENS, SCREENS_OF_BROWSE, Screen, draw


@pytest.mark.parametrize("screen", SCREENS_OF_BROWSE, ids=lambda screen: screen.name)
def test_a_screen_is_as_in_its_picture(screen: Screen) -> None:
    assert screen.path.is_file(), "run `make pictures`"
    drawn = draw(screen)
    assert _words(drawn) == _words(screen.path.read_text("utf-8"))
    assert drawn == screen.path.read_text("utf-8")


def _words(picture: str) -> list[str]:
    """The texts of a picture: of two that differ, these say most."""
    return re.findall(r">([^<]+)</text>", picture)


def test_no_picture_is_left_over() -> None:
    kept = {*SCREENS.glob("*.svg"), *GUIDE.glob("browse-*.svg")}
    assert kept == {screen.path for screen in SCREENS_OF_BROWSE}


def test_the_guide_shows_its_pictures() -> None:
    page = (ROOT / "docs" / "guide" / "browse.md").read_text("utf-8")
    for screen in SCREENS_OF_BROWSE:
        assert (f"(../pictures/{screen.name}.svg)" in page) == screen.guide


def test_pictures_load_nothing() -> None:
    for screen in SCREENS_OF_BROWSE:
        picture = screen.path.read_text("utf-8")
        assert "url(http" not in picture
        assert "<script" not in picture
        assert "/tmp/" not in picture
