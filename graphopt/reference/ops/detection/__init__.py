"""Boxes in images, in NumPy."""
