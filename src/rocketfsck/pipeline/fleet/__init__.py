"""Jobs over many stores.

places.py    which paths are meant: patterns are expanded, no store is opened
opening.py   a store is opened, where the work is done
packing.py   how work is cut for workers: by bytes and by queues, over all stores
passing.py   an engine for a store's job on a worker: what is too much is given away
stages.py    what workers do: begin a store's job, do a share of its tasks, end the job
driving.py   what the driver does: it hands packed bytes on
spool.py     where the driver keeps them

model.py     what is asked in a check, the row of a store, the columns of both tables
work.py      the check of one store
results.py   what came of a check; findings wait in a file until somebody wants them
tables.py    runs appended to Delta and Iceberg tables
run.py       the check of many stores

rebuilt.py   the row of a store that was rebuilt, and all of a run
records.py   what a result was built from: whether a later run takes it over
shelf.py     the directory that a run fills: its lock, what killed runs left
rebuilding.py  the rebuilding of many stores
"""
