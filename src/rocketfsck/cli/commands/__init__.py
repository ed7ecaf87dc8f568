"""One module a command; each has an attribute `command`."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "info": "Show what a store or file holds, without a scan.",
    "dump": "Show the contents of any file, directory or store.",
    "browse": "Look into a store in a terminal, down to the byte.",
    "query": "Find messages by id, key, offset, time or content.",
    "check": "Verify a store: what is wrong, where, and what to do.",
    "page": "Make a page with pictures of what a check has found.",
    "fix": "Repair a store: check, plan, ask, repair, check again.",
    "plan": "Plan a repair: its actions, reasons and losses.",
    "apply": "Carry out a plan, check the result, put it in place.",
    "undo": "Undo the last repair of a store.",
    "rebuild": "Rebuild queues, index or checkpoint from the commit log.",
    "salvage": "Carve records out of any files into a new store.",
    "convert": "Make a DLedger store plain, or join stores to a controller.",
    "compare": "Show where replicas differ; heal one from the other.",
    "report": "Count the messages of stores by topic, queue, day and key.",
    "timeline": "Show what the files of a store tell about time.",
    "export": "Write what stores hold as Parquet, Delta or Iceberg tables.",
    "write": "Write a store as a broker would, from messages or a seed.",
    "damage": "Break a copy of a store; list what a check must find.",
    "simulate": "Predict what a broker will do when it starts on a store.",
    "bugreport": "Write an archive for a bug report, with a masked copy.",
    "explain": "Explain a rule or a class of faults.",
    "config": "Show the settings in force, and where each is set.",
    "schema": "Print the JSON Schema of a document that a command writes.",
    "completion": "Print the completion script for a shell.",
}
"""The commands in the order of the help, and what each does in a line."""
