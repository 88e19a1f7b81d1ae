"""Sequences of different lengths in JAX."""
