"""Reads one thing at a place in a file that may be damaged: a record, a unit, an entry. No judgement."""
