"""One store healed from another copy of it."""
