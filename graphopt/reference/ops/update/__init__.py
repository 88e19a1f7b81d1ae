"""Parameter updates in NumPy."""
