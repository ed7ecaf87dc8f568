"""The report page: one document with all that the page shows, made from a check and its store."""
