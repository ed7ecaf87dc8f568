"""Checks of the store as a whole: its layout, its segments, its small files."""
