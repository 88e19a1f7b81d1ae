"""Paddle's pickled parameters, read without running anything."""
