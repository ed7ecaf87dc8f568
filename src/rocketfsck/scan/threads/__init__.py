"""Reading ahead, tasks on several threads with results in order, and one file scanned in pieces."""
