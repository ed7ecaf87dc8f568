"""The area next to a store: the journal, the tree that is changed, locks, links, and owners."""
