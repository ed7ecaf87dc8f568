"""Records to rows in plain Python: for small files, and what the kernels of `scan.compiled` are held to."""
