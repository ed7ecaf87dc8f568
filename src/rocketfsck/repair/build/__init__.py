"""What can be made again from the commit log: consume queues and index files; index links from their entries.

    walk         the log's live records, fed to the builders
    queues       consume queues of every kind; queuestates: where units go
    index        index files; links, slots and header from a file's own entries
    files        files in the making, the checkpoint, what a rebuilding says of its work

The source is the commit log alone; nothing of the store is changed.
"""
