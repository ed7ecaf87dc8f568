"""What is made of columns for others: messages as Python values, Arrow batches, values side by side."""
