"""A new store out of whatever records can be found."""
