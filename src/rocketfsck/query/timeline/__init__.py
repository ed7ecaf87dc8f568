"""What the files of a store tell about time: when files were made and written, when brokers started, which
messages came first and last, when nothing came, what is due. `events.py` has the events of small files,
`log.py` those of the commit log, `due.py` what is still to come."""
