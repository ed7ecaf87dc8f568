"""Checks tiered storage: segments, records and units, index files, all against the metadata."""
