"""Axes with more rows than the data: the ops that propagate them, and the masks of the others.

`dims` names the factors of an axis. `rules` is the answer of a rule about an op; the rules are in
`computing`, `images`, `movement`, `ordered`, `recurrent`, `sequences` and `statistics`, and
`regions` takes them into loops and branches. `mask` rewrites a module so that its results on padded
feeds are those on the feeds themselves.
"""
