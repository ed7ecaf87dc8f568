"""What a store holds, counted: records, bytes, keys, slots."""
