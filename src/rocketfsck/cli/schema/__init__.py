"""JSON Schemas of all documents that commands write, print and keep."""
