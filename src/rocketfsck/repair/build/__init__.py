"""What can be made again from the commit log: consume queues and index files; index links from their entries.

    walk         the log's live records, fed to the builders
    queues       consume queues of every kind; queuestates, unitwriter: where units go, and their files
    index        index files; relink: links, slots and header from a file's own entries

The source is the commit log alone; nothing of the store is changed.
"""
