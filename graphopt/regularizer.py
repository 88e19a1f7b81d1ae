"""Weight decay (paddle.regularizer)."""

from graphopt.frontend.missing import explain
from graphopt.frontend.regularizers import L1Decay as L1Decay
from graphopt.frontend.regularizers import L2Decay as L2Decay
from graphopt.frontend.regularizers import WeightDecayRegularizer as WeightDecayRegularizer

explain(globals())
