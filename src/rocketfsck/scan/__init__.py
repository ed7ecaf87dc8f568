"""Bytes to columns: the files of a store as batches of NumPy columns and regions, plain or compiled.

    columns   the columns of a batch, what may be wrong with a record, why a run of records ends
    queues    a number for each (topic, queueId); options, spans: what many rooms use
    plain     the bytes of records to rows, in plain Python; compiled: the same, as kernels, file by file
    machine   whether kernels are wanted, how they are compiled and kept, single machine operations
    log       a whole commit log file: runs of records, what lies between them, what of it is live
    threads   reading ahead, tasks in order, a file in pieces by several threads
    join      records against index entries; index files by the replay of their puts
    units     records to units and index entries: what a rebuild and the writer put
    synth     what a made-up message is, number by number; compiled writes many
    views     whole messages as Python values, columns as Arrow batches, byte ranges side by side

Nothing here judges what it finds; `rocketfsck.verify` does.

A new column of a record is a line in `columns.RECORD_DTYPES`, which has the layout's integers already, and a
value at the same place of the row in `plain.records` and in `compiled.records`; the tests compare both with
construct.
"""
