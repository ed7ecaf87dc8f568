"""Mutation testing: small changes of the source, one at a time, each of which some test should notice."""
