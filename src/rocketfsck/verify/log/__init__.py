"""Checks of the commit log: its records, its regions, its files beside each other."""
