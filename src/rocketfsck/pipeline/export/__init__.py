"""`rocketfsck export` as a job: stores as Parquet files, or as a Delta or Iceberg table.

job         export_stores: the plan, the stages, what the driver commits
work        a task: parts of a store into files (write, spill, file, layout)
merge       small files of a partition made one
tables      Delta and Iceberg: the same files, and metadata that names them
model       what is asked for, and what comes out
"""
