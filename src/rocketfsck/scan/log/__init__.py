"""A whole commit log file: its runs of records, the regions between them, and what of it is live."""
