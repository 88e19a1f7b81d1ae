"""Passes that distribute a step over devices."""
