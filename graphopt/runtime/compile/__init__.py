"""Compilation of programs: passes, lowering, trials of kernels."""
