"""Every change of a file system: confined to what was opened for writing, and published whole."""
