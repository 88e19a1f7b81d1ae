"""Runs of a program: on one device or several, in buckets, with other trainers."""
