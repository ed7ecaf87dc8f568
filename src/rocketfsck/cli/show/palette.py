"""The few colours of the text output. With `colored` false every method gives its text back."""

from __future__ import annotations


class Palette:
    """Wraps printable text in SGR sequences; widths are to be padded before."""

    def __init__(self, colored: bool) -> None:
        self.colored = colored

    def _sgr(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colored and text else text

    def bold(self, text: str) -> str:
        return self._sgr("1", text)

    def dim(self, text: str) -> str:
        return self._sgr("2", text)

    def error(self, text: str) -> str:
        return self._sgr("1;31", text)

    def warning(self, text: str) -> str:
        return self._sgr("33", text)

    def info(self, text: str) -> str:
        return self._sgr("36", text)

    def good(self, text: str) -> str:
        return self._sgr("32", text)
