"""Linear algebra in NumPy."""
