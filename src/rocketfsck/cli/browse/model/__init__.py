"""What is looked at of a store: windows of files, links between them, findings, searches, plans."""
