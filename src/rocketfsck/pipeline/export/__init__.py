"""`rocketfsck export` as a job: stores as Parquet files, or as a Delta or Iceberg table.

job         export_stores: a new directory; append: what is new, to a table in one
remote      both for object stores (runs, objects, storage)
plan        what is read and what the files are like; tasks: the engine writes them
work        a task: parts of a store into files (write, file, layout)
merge       small files of a partition made one
tables      Delta and Iceberg: the same files, and metadata that names them (existing, marks)
model       what is asked for, and what comes out
"""
