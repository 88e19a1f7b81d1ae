"""Paddle 3's `.json` programs, from bytes to records."""
