"""A fuzzer over all commands: seeded, field by field, with the promises of the tool as its oracles.

python -m tests.hostile.fuzz --seeds 0-99999 --jobs 2

subjects   tiny stores of many dialects: of our writer, and of real brokers
spots      where every field of every format is in a store
mutations  one change of a store, as data: of a field, of bytes, of files and directories
documents  the same for plan.json, journal.json and reports
cases      one number -> a store, its changes, what is run on it
scenarios  what is run: every command, and check -> plan -> apply -> check -> plan -> undo
laws       what must hold, whatever was damaged
seen       which fields a rule checks, and why others are not
workers    processes that run cases, watched for time and memory
minimise   the same broken law with fewer changes and smaller values
"""
