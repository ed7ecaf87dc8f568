"""Stores of one kind made into stores of another, with every message and its queue offset."""
