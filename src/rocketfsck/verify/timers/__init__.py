"""Timer wheel, timer log and timer progress against each other and against the commit log."""
