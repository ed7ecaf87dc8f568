"""Following live commit logs, without Spark: what is complete, where a reader is, what it has lost.

walk        what is a complete record, and how far one file is complete
log         from a place in the log to where complete records end now
place       places as JSON, the files of a log, the options of a stream
reading     the ranges between two places, and their rows, as the view `messages` has them
"""
