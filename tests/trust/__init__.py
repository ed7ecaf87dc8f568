"""Figures of trust: what the tests have shown, measured part by part, and the page that says it.

Each part has a module with `measure()`, which gives the dataclass of its document; `documents` keeps the
documents in docs/trust, and `page` writes docs/trust.md from them. No number is written by hand.
"""
