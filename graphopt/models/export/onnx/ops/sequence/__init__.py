"""Sequences: padded, with a number of steps each."""
