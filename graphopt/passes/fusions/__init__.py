"""Passes that replace several ops by one."""
