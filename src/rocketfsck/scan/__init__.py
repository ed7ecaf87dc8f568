"""Bytes to columns: the files of a store as batches of NumPy columns and regions, plain or compiled.

    tiling    a commit log file: record batches and regions that tile it
    plain     the records of a buffer, in plain Python; kernels_records does the same, compiled
    units     consume queue files; entries: index entries
    joins     records against queue offsets, units and index entries
    messages  whole messages as Python values; arrow: the columns as Arrow batches

Nothing here judges what it finds; `rocketfsck.verify` does.
"""
