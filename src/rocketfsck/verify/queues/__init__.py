"""Checks of the consume queues: by themselves, and unit by unit against the records."""
