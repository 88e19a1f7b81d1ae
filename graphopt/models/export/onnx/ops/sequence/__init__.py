"""Sequences: padded, with a number of steps for each."""
