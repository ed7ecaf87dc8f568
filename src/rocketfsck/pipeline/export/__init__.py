"""`rocketfsck export` as a job: stores as Parquet files, or as a Delta or Iceberg table.

job         export_stores: which stores and parts are read, and how they become a table
rows        the columns, the same on every engine
local       Arrow writes the files, here and on the workers of a cluster
files       where they are, and what their footers say
tables      Delta and Iceberg: one commit with the files and the marks
model       what is asked for, and what comes out; how far each log is in a table
"""
