"""A NumPy interpreter of the `pd` dialect, the reference for passes and for the JAX lowering.

It shares no code with `graphopt.lowering` and needs no JAX: a mistake there is not repeated here.
`evaluate` runs a module, `evaluate_ops` runs some ops on arrays; both in float64 or in the declared
precision. `supports` reports whether an op has a rule; an op without a rule raises `Unsupported`.
The rules are in `ops/`, in files named like the files of `graphopt/ir/dialect/ops`.
"""

from graphopt.reference.interpreter import Precision as Precision
from graphopt.reference.interpreter import evaluate as evaluate
from graphopt.reference.interpreter import evaluate_ops as evaluate_ops
from graphopt.reference.interpreter import is_random as is_random
from graphopt.reference.interpreter import supports as supports
from graphopt.reference.registry import Unsupported as Unsupported
