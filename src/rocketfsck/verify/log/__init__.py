"""Checks of the commit log: its records, its regions, its files next to each other."""
