"""Records against index entries, and index files against the replay of their puts."""
