"""Checks of RocksDB databases: their files, their rows, and both against the commit log."""
