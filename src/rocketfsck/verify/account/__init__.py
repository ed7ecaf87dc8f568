"""The account of the messages: what became of every message that anything in a store knows of."""
