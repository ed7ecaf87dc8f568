"""Messages read from JSON lines, Parquet and Arrow."""
