"""Records to consume queue units and index entries, as a broker would put them."""
