"""Reads one thing at a place in a file that may be damaged: a record, its head, a unit, an entry, a chain.

No judgement: what is wrong with it is for `verify` to say.
"""
