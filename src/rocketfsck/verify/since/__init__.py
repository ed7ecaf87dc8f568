"""Checks only what is new since an earlier check of the same store.

state.py     the state file: what was checked, and what later checks continue from
proving.py   which parts of a store a state proves (name, size, times, inode, sampled digest); which are due;
             notes on an index file's keys, which hold while neither the file nor the log changes
run.py       a check that continues from a state, and the state that it leaves
"""
