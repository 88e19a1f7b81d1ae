"""Initializers of parameters (paddle.nn.initializer)."""

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.frontend.initializers.base import Initializer as Initializer
from graphopt.frontend.initializers.base import calculate_gain as calculate_gain
from graphopt.frontend.initializers.defaults import (
    set_global_initializer as set_global_initializer,
)
from graphopt.frontend.initializers.fill import Assign as Assign
from graphopt.frontend.initializers.fill import Constant as Constant
from graphopt.frontend.initializers.fill import Normal as Normal
from graphopt.frontend.initializers.fill import TruncatedNormal as TruncatedNormal
from graphopt.frontend.initializers.fill import Uniform as Uniform
from graphopt.frontend.initializers.scaled import KaimingNormal as KaimingNormal
from graphopt.frontend.initializers.scaled import KaimingUniform as KaimingUniform
from graphopt.frontend.initializers.scaled import XavierNormal as XavierNormal
from graphopt.frontend.initializers.scaled import XavierUniform as XavierUniform
from graphopt.frontend.initializers.structured import Bilinear as Bilinear
from graphopt.frontend.initializers.structured import Dirac as Dirac
from graphopt.frontend.initializers.structured import Orthogonal as Orthogonal

# the classes with a seed of their own
_OLDER = (
    *("ConstantInitializer", "NumpyArrayInitializer", "UniformInitializer", "NormalInitializer"),
    *("TruncatedNormalInitializer", "XavierInitializer", "MSRAInitializer"),
)
lazy.attach(globals(), {name: ("graphopt.fluid.initializer", name) for name in _OLDER})
publish(globals(), __name__)
