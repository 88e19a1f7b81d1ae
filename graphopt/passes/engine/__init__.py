"""Patterns, matching, rewriting and validation: the parts of every pass."""
