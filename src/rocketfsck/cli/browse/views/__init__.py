"""Screens and widgets over `rocketfsck.cli.browse.model`. Files are read in worker threads."""
