"""Records to columns as kernels: named as in `scan.plain`. Importing one imports Numba."""
