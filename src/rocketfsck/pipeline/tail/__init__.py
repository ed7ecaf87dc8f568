"""Following live commit logs, without Spark: what is complete, where a reader is, what it has lost.

record, walk    what is a complete record, in one file
log             from a place in the log to where complete records end now
place, ranges   places as JSON; where to start, and the ranges between two places
reading         the rows of a range, as the view `messages` has them
options         the options of a stream
"""
