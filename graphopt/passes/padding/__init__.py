"""Axes with more rows than the data: the ops that propagate them, and the masks for all other ops.

`dims` names the factors of an axis. `rules` has the records that a rule returns for an op; the
rules are in `computing`, `images`, `movement`, `ordered`, `recurrent`, `sequences` and
`statistics`, and `regions` applies them inside loops and branches. `mask` rewrites a module so that
its results on padded feeds equal its results on the feeds without padding.
"""
