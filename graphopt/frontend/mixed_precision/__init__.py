"""Rewriting the forward part of a program for half precision: casts between operators."""
