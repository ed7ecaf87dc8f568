"""`rocketfsck export` as a job: stores as Parquet files, or as a Delta or Iceberg table.

job         export_stores: a new directory, objects at a URL, or what is new to a table
plan        which stores and parts are read; rows: the columns, the same on every engine
local       Arrow writes the files; work: on the workers of a cluster
files       where they are, and what their footers say
tables      Delta and Iceberg: one commit with the files and the marks (marks, storage)
model       what is asked for, and what comes out
"""
