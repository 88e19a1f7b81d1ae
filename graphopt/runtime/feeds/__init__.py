"""Feeds and fetches of a run: check, pad and split feeds, merge fetches."""
