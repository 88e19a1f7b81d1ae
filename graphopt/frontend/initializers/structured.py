"""Initializers that depend on the position of an element: Dirac, Orthogonal, Bilinear."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.errors import AssertedError
from graphopt.frontend.constants import value_attrs
from graphopt.frontend.initializers.base import Initializer, append_fill
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Operator, Variable, unique_name

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class Bilinear(Initializer):
    """Weights of an upsampling convolution (Paddle page: paddle.nn.initializer.Bilinear).

    For filters [out, in, k, k]; raises ValueError for any other shape, and TypeError for integers.
    Weights of other dtypes are computed in float32 and cast.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def fill(self, param: Variable, block: Block) -> Operator:
        if len(param.shape) != 4 or param.shape[2] != param.shape[3]:
            raise ValueError(
                f"Bilinear(): the shape must be 4-D with equal last two dimensions, but parameter "
                f"'{param.name}' has shape {list(param.shape)}"
            )
        if param.dtype not in _FLOATS:
            raise TypeError(f"Bilinear(): '{param.name}' should be a float, found {param.dtype}")
        size = param.shape[3]
        half = math.ceil(size / 2)
        centre = (2 * half - 1 - half % 2) / (2 * half)
        at = np.arange(math.prod(param.shape))
        # as in Paddle, the row is a fraction that includes the position in the row
        column, row = at % size, at / size % size
        value = (1 - np.abs(column / half - centre)) * (1 - np.abs(row / half - centre))
        attrs = value_attrs(value.reshape(param.shape).astype(np.float32))
        if param.dtype == "float32":
            return block.append_op("assign_value", outputs={"Out": param}, attrs=attrs)
        single = DType("float32")
        made = _temporary(block, f"bilinear_init.{param.name}", list(param.shape), single)
        block.append_op("assign_value", outputs={"Out": made}, attrs=attrs)
        kinds = {"in_dtype": single.code, "out_dtype": param.dtype.code}
        return block.append_op("cast", {"X": made}, {"Out": param}, kinds)


class Dirac(Initializer):
    """Filters that pass channels through (Paddle page: paddle.nn.initializer.Dirac).

    For filters with 1 to 3 window axes. Each of the `groups` of output channels copies the first
    input channels. Raises ValueError for other shapes.
    """

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if isinstance(groups, bool) or not isinstance(groups, int) or groups <= 0:
            raise ValueError("Dirac(): 'groups' must be a positive integer")
        self._groups = groups

    def fill(self, param: Variable, block: Block) -> Operator:
        shape = param.shape
        if len(shape) not in (3, 4, 5):
            raise AssertedError(
                "Dirac(): Only Tensor with 3/4/5 dimensions can be initialized by Dirac, but "
                f"parameter '{param.name}' has shape {list(shape)}"
            )
        if shape[0] % self._groups:
            raise ValueError(
                f"Dirac(): Tensor 0-dimension must be divisible by groups, but {shape[0]} is not "
                f"by {self._groups}"
            )
        per_group = shape[0] // self._groups
        channels = np.arange(min(per_group, shape[1]))
        out = (np.arange(self._groups)[:, None] * per_group + channels).ravel()
        middle = [np.full(out.size, dim // 2) for dim in shape[2:]]
        at = np.ravel_multi_index([out, np.tile(channels, self._groups), *middle], shape)
        flat = _temporary(block, "dirac", [math.prod(shape)], param.dtype)
        append_fill(block, "fill_constant", flat, value=0.0)
        index = _constant(block, "scatter_index", at.astype(np.int64))
        ones = _constant(block, "scatter_value", np.ones(at.size, param.dtype.numpy))
        inputs = {"X": flat, "Ids": index, "Updates": ones}
        block.append_op("scatter", inputs, {"Out": flat}, {"overwrite": True})
        return block.append_op("reshape2", {"X": flat}, {"Out": param}, {"shape": list(shape)})


class Orthogonal(Initializer):
    """`gain` times orthonormal rows, or columns if there are more rows (Saxe and others, 2014).

    Axes after the first count as one. Raises ValueError for less than two axes. Paddle page:
    paddle.nn.initializer.Orthogonal.
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        if gain is None:
            raise ValueError("Orthogonal(): gain should not be None")
        self._gain = float(gain)

    def fill(self, param: Variable, block: Block) -> Operator:
        shape = param.shape
        if len(shape) < 2:
            raise AssertedError(
                "Orthogonal(): Only Tensor with 2 or more dimensions can be initialized by "
                f"Orthogonal, but parameter '{param.name}' has shape {list(shape)}"
            )
        rows, columns = shape[0], math.prod(shape[1:])
        wide = DType("float64")
        value = _temporary(block, "gaussian_random", [max(rows, columns), min(rows, columns)], wide)
        seed = block.program.random_seed
        append_fill(block, "gaussian_random", value, mean=0.0, std=1.0, seed=seed)
        # Gram-Schmidt's Q is A / R, with R from Cholesky; the second pass removes rounding errors
        for _ in range(2):
            value = _orthonormal(block, value)
        if rows < columns:
            value = _apply(block, "transpose2", {"X": value}, axis=[1, 0])
        value = _apply(block, "cast", {"X": value}, in_dtype=wide.code, out_dtype=param.dtype.code)
        value = _apply(block, "reshape2", {"X": value}, shape=list(shape))
        attrs = {"scale": self._gain, "bias": 0.0}
        return block.append_op("scale", {"X": value}, {"Out": param}, attrs)


def _orthonormal(block: Block, a: Variable) -> Variable:
    """Orthonormalize the columns of `a`, keeping their span."""
    square = _apply(block, "matmul_v2", {"X": a, "Y": a}, trans_x=True, trans_y=False)
    factor = _apply(block, "cholesky", {"X": square}, upper=True)
    inverse = _apply(block, "inverse", {"Input": factor}, "Output")
    return _apply(block, "matmul_v2", {"X": a, "Y": inverse}, trans_x=False, trans_y=False)


def _apply(block: Block, type: str, inputs: Any, out: str = "Out", **attrs: Any) -> Variable:
    made = block.create_var(unique_name.generate(f"{type}.tmp"), stop_gradient=True)
    block.append_op(type, inputs, {out: made}, attrs)
    return made


def _temporary(block: Block, name: str, shape: list[int], dtype: DType) -> Variable:
    made = unique_name.generate(f"{name}.tmp")
    return block.create_var(made, shape, dtype, stop_gradient=True)


def _constant(block: Block, name: str, value: np.ndarray[Any, Any]) -> Variable:
    made = block.create_var(unique_name.generate(name), stop_gradient=True)
    block.append_op("assign_value", outputs={"Out": made}, attrs=value_attrs(value))
    return made
