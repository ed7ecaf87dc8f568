"""Changes of the commit log: fences, BLANKs, the end of the log, and the records that are lost by them."""
