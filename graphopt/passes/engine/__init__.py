"""Patterns, matching, rewriting and validation: the parts that every pass is made of."""
