"""Two replicas compared: their records and their bytes."""
