"""All rows of what lines mean; `matching` has the order in which they are looked through."""
