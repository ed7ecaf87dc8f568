"""Checks only what is new since an earlier check of the same store.

proof.py     whether a file, or its first part, is what it was: name, size, times, inode, a sampled digest
state.py     the state file: what was checked, and what later checks continue from
proving.py   which parts of a store a state proves, and which are due to be read again
begin.py     what a check begins with, and can begin with again
notes.py     notes on an index file's keys, which hold while neither the file nor the log changes
run.py       a check that continues from a state, and the state that it leaves
"""
