"""Records carved out of any bytes, and how sure each of them is."""
