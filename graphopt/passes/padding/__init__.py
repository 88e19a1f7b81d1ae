"""Axes with more rows than the data: which ops carry them along, and what masks the rest.

`dims` names what an axis is made of. `carrying` is what the rules say of each op, those in
`computing` and `moving`. `mask` rewrites a module so that its results on padded feeds are those on
the feeds themselves.
"""

from graphopt.passes.padding import computing as computing
from graphopt.passes.padding import moving as moving
