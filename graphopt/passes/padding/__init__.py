"""Axes with more rows than the data: the ops that propagate them, and the masks of the others.

`dims` names the factors of an axis. `rules` is the answer of a rule about an op; the rules are in
`computing`, `images`, `movement`, `ordered`, `recurrent`, `sequences` and `statistics`, and
`regions` takes them into loops and branches. `mask` rewrites a module so that its results on padded
feeds are those on the feeds themselves.
"""

from graphopt.passes.padding import computing as computing
from graphopt.passes.padding import images as images
from graphopt.passes.padding import movement as movement
from graphopt.passes.padding import ordered as ordered
from graphopt.passes.padding import recurrent as recurrent
from graphopt.passes.padding import sequences as sequences
from graphopt.passes.padding import statistics as statistics
