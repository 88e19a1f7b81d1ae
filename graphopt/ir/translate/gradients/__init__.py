"""Gradient operators of saved training programs, grouped into derivatives."""
