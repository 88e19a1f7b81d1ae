"""Passes that choose a form for a platform."""
