"""Which broker version wrote a store: the clues, and what follows from them."""
