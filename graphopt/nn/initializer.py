"""Initializers of parameters (paddle.nn.initializer)."""

from graphopt.initializer.base import Initializer as Initializer
from graphopt.initializer.base import calculate_gain as calculate_gain
from graphopt.initializer.defaults import set_global_initializer as set_global_initializer
from graphopt.initializer.fill import Assign as Assign
from graphopt.initializer.fill import Constant as Constant
from graphopt.initializer.fill import Normal as Normal
from graphopt.initializer.fill import TruncatedNormal as TruncatedNormal
from graphopt.initializer.fill import Uniform as Uniform
from graphopt.initializer.scaled import KaimingNormal as KaimingNormal
from graphopt.initializer.scaled import KaimingUniform as KaimingUniform
from graphopt.initializer.scaled import XavierNormal as XavierNormal
from graphopt.initializer.scaled import XavierUniform as XavierUniform
from graphopt.initializer.structured import Bilinear as Bilinear
from graphopt.initializer.structured import Dirac as Dirac
from graphopt.initializer.structured import Orthogonal as Orthogonal
