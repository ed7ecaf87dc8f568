"""What a broker does when it starts on a store, step by step. Reference 6."""
