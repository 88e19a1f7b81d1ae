"""The reference rules, one file per family, named like those of `graphopt/ir/ops`."""

from graphopt.testing.reference.ops import activation as activation
from graphopt.testing.reference.ops import combine as combine
from graphopt.testing.reference.ops import comm as comm
from graphopt.testing.reference.ops import complex as complex
from graphopt.testing.reference.ops import conv as conv
from graphopt.testing.reference.ops import conv_transpose as conv_transpose
from graphopt.testing.reference.ops import creation as creation
from graphopt.testing.reference.ops import elementary as elementary
from graphopt.testing.reference.ops import fused as fused
from graphopt.testing.reference.ops import fused_update as fused_update
from graphopt.testing.reference.ops import index as index
from graphopt.testing.reference.ops import linear as linear
from graphopt.testing.reference.ops import logic as logic
from graphopt.testing.reference.ops import loss as loss
from graphopt.testing.reference.ops import math as math
from graphopt.testing.reference.ops import norm as norm
from graphopt.testing.reference.ops import optimizer as optimizer
from graphopt.testing.reference.ops import order as order
from graphopt.testing.reference.ops import random as random
from graphopt.testing.reference.ops import rearrange as rearrange
from graphopt.testing.reference.ops import reduce as reduce
from graphopt.testing.reference.ops import scan as scan
from graphopt.testing.reference.ops import scatter as scatter
from graphopt.testing.reference.ops import shape as shape
from graphopt.testing.reference.ops import sort as sort
from graphopt.testing.reference.ops import transformer as transformer
