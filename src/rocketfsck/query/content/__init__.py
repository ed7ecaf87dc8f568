"""Queries by content: the expression language, its evaluation, and bodies unpacked."""
