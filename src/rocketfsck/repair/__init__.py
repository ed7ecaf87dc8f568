"""Repair: plan (data) -> apply -> undo, and one builder for each thing that can be rebuilt.

    plan, repairs        a plan as data, made from a report; the table of repairs
    area, apply          the place next to the store where a plan is carried out, judged, published and undone
    build                queues, index, checkpoint and config built again from the log
    heal, compare        what another copy of the store has
    carve, salvage       records found anywhere in bytes, and a new store of them
    log                  filler records, BLANKs and other edits of commit log files

Everything that these change goes through `writer.disk.fileops`.
"""
