"""Machine code of compiled functions, made by numba. Nothing else in the package imports it."""
