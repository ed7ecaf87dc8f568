"""Checks of the index files: by themselves, and entry by entry against the keys of the records."""
