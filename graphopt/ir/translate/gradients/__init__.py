"""Gradient operators of saved training programs: which of them together are a derivative."""
