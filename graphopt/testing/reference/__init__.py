"""An interpreter of the `pd` dialect in NumPy, to compare passes and the JAX lowering with.

It shares no code with `graphopt.lowering` and needs no JAX: a mistake there is not repeated here.
`evaluate` runs a module, `evaluate_ops` some ops for given arrays; both in float64 or in the
declared precision. `supports` says whether an op has a rule; one without raises `Unsupported`.
The rules are in `ops/`, in files named like those of `graphopt/ir/ops`.
"""

from graphopt.testing.reference.interpreter import Precision as Precision
from graphopt.testing.reference.interpreter import evaluate as evaluate
from graphopt.testing.reference.interpreter import evaluate_ops as evaluate_ops
from graphopt.testing.reference.interpreter import is_random as is_random
from graphopt.testing.reference.interpreter import supports as supports
from graphopt.testing.reference.registry import Unsupported as Unsupported
