"""Sequences of different lengths."""
