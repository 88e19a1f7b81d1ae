"""Axes with more rows than the data: which ops carry them along, and what masks the rest.

`dims` names what an axis is made of, `rules` says how each op treats padded axes, `mask` rewrites a
module so that its results on padded feeds are those on the feeds themselves.
"""
