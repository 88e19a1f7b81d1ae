"""Sequences of different lengths in NumPy."""
