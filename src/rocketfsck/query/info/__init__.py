"""What a store, or a file of one, is: everything that needs no scan, and what one counts."""
