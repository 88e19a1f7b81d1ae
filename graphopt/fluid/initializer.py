"""Initializers under the names and arguments of 1.8 (paddle.fluid.initializer)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.initializers.base import Initializer as Initializer
from graphopt.frontend.initializers.base import append_fill, calculate_gain, choose_fan, fans
from graphopt.frontend.initializers.defaults import (
    set_global_initializer as set_global_initializer,
)
from graphopt.frontend.initializers.fill import Assign
from graphopt.frontend.initializers.fill import Constant as _Constant
from graphopt.frontend.initializers.structured import Bilinear as _Bilinear
from graphopt.frontend.missing import explain
from graphopt.ir.program import Block, Operator, Variable, default_startup_program, unique_name


class _InFloat32(Initializer):
    """An initializer that fills float16 in float32 and casts it, as Paddle 1 does."""

    def __call__(self, param: Variable, block: Block | None = None) -> Operator:
        """Append the operators that write the initial value; return the first of them."""
        arguments.variable(param, "param", type(self).__name__)
        target = block or default_startup_program().global_block()
        if param.dtype != "float16":
            return self.fill(param, target)
        name = unique_name.generate(f"{param.name}.float32")
        wide = target.create_var(name, param.shape, "float32")
        filled = self.fill(wide, target)
        attrs = {"in_dtype": wide.dtype.code, "out_dtype": param.dtype.code}
        target.append_op("cast", {"X": wide}, {"Out": param}, attrs)
        return filled


class ConstantInitializer(_InFloat32, _Constant):
    """One value everywhere (Paddle page: fluid.initializer.ConstantInitializer)."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        super().__init__(value)


class NumpyArrayInitializer(_InFloat32, Assign):
    """The values of an array (Paddle page: fluid.initializer.NumpyArrayInitializer)."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"NumpyArrayInitializer(): 'value' must be an array, found {type(value).__name__}"
            )
        super().__init__(value)


class _Random(_InFloat32):
    """A distribution with its own seed; 0 uses the program's seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = int(seed)

    def _uniform(self, param: Variable, block: Block, low: float, high: float) -> Operator:
        seed = self._seed or block.program.random_seed
        return append_fill(block, "uniform_random", param, min=low, max=high, seed=seed)

    def _normal(
        self, param: Variable, block: Block, mean: float, std: float, type: str = "gaussian_random"
    ) -> Operator:
        seed = self._seed or block.program.random_seed
        return append_fill(block, type, param, mean=mean, std=std, seed=seed)


class UniformInitializer(_Random):
    """Uniform on [low, high) (Paddle page: fluid.initializer.UniformInitializer)."""

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        super().__init__(seed)
        if diag_num:
            raise ValueError("UniformInitializer(): 'diag_num' is not supported; use an array")
        self._low, self._high = float(low), float(high)

    def fill(self, param: Variable, block: Block) -> Operator:
        return self._uniform(param, block, self._low, self._high)


class NormalInitializer(_Random):
    """Normal with mean `loc` and deviation `scale` (fluid.initializer.NormalInitializer)."""

    operator = "gaussian_random"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed)
        self._loc, self._scale = float(loc), float(scale)

    def fill(self, param: Variable, block: Block) -> Operator:
        return self._normal(param, block, self._loc, self._scale, self.operator)


class TruncatedNormalInitializer(NormalInitializer):
    """Normal, cut at two deviations (Paddle page: fluid.initializer.TruncatedNormalInitializer)."""

    operator = "truncated_gaussian_random"


class XavierInitializer(_Random):
    """Variance 2 / (fan_in + fan_out), uniform or normal (fluid.initializer.XavierInitializer)."""

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        fan_out: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        self._is_uniform, self._fan_in, self._fan_out = bool(uniform), fan_in, fan_out

    def fill(self, param: Variable, block: Block) -> Operator:
        fan_in, fan_out = fans(param.shape)
        total = choose_fan(self._fan_in, fan_in) + choose_fan(self._fan_out, fan_out)
        return self._draw_with_variance(param, block, 2.0 / total)

    def _draw_with_variance(self, param: Variable, block: Block, variance: float) -> Operator:
        limit = float(np.sqrt(3.0 * variance))
        if self._is_uniform:
            return self._uniform(param, block, -limit, limit)
        return self._normal(param, block, 0.0, float(np.sqrt(variance)))


class MSRAInitializer(XavierInitializer):
    """Variance gain² / fan_in, uniform or normal (Paddle page: fluid.initializer.MSRAInitializer).

    The gain follows from `nonlinearity`, as in later releases.
    """

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        seed: int = 0,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
    ) -> None:
        super().__init__(uniform, fan_in, None, seed)
        self._gain = calculate_gain(nonlinearity, negative_slope)

    def fill(self, param: Variable, block: Block) -> Operator:
        fan_in = choose_fan(self._fan_in, fans(param.shape)[0])
        return self._draw_with_variance(param, block, self._gain**2 / fan_in)


class BilinearInitializer(_InFloat32, _Bilinear):
    """Filters that enlarge images by interpolation (fluid.initializer.BilinearInitializer)."""

    def __init__(self) -> None:
        super().__init__()


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer

explain(globals())
