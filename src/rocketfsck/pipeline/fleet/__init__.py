"""Jobs over many stores.

stages.py    any job: workers begin a store's job, do a share of its tasks, end the job; the driver hands on
run.py       the check of many stores

model.py     what is asked in a check, the row of a store, what came of a check
tables.py    runs appended to tables, and what is new since the last one
counting.py  the messages of many stores, counted

records.py   the row of a store that was rebuilt; what it was built from: whether a later run takes it over
rebuilding.py  the rebuilding of many stores

Which paths are meant is said in `pipeline.sources`.
"""
