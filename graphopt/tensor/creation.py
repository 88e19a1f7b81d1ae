"""Creation of constants, copies, parameters and persistable variables (paddle.*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments, lazy
from graphopt.frontend.constants import value_attrs
from graphopt.frontend.initializers.base import Initializer
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper, emit, emit_as
from graphopt.frontend.mode import get_default_dtype, static_mode
from graphopt.frontend.parameters import ParamAttr, as_weight_attr
from graphopt.frontend.sizes import sizes
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import (
    Parameter,
    Variable,
    default_main_program,
    default_startup_program,
    unique_name,
)


def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor of this shape filled with one number (paddle.full).

    Without `dtype` it is bool for a bool, complex128 for a complex number, else the default dtype.
    Dimensions and the number may be Variables. No gradient flows through the result. Raises
    TypeError for a complex number and a dtype that is not complex.
    """
    if isinstance(fill_value, bool) and dtype is None:
        dtype = "bool"
    if isinstance(fill_value, (complex, np.complexfloating)):
        return _full_of_complex(shape, fill_value, dtype, name)
    dims = sizes(shape, "shape", "full", "ShapeTensor", "ShapeTensorList")
    inputs = dict(dims.inputs)
    element = get_default_dtype() if dtype is None else arguments.dtype(dtype, "dtype", "full")
    attrs = {"shape": dims.value, "value": 0.0, "str_value": "", "dtype": element.code}
    if isinstance(fill_value, Variable):
        inputs["ValueTensor"] = fill_value
    else:
        value = arguments.number(fill_value, "fill_value", "full")
        attrs |= {"value": value, "str_value": digits(fill_value)}
    if name is None:
        unique_name.generate("fill_constant")  # Paddle counts the layer twice
    return emit("fill_constant", inputs, attrs, name=name, stop_gradient=True)


def _full_of_complex(shape: Any, value: Any, dtype: Any, name: str | None) -> Variable:
    element = arguments.dtype("complex128" if dtype is None else dtype, "dtype", "full")
    if not element.is_complex:
        raise TypeError(
            f"full(): the argument 'fill_value' is the complex number {value}, and 'dtype' is "
            f"{element}; pass complex64 or complex128"
        )
    part = "float32" if element == "complex64" else "float64"
    parts = {"X": full(shape, value.real, part), "Y": full(shape, value.imag, part)}
    return emit("complex", parts, name=name, stop_gradient=True)


def digits(value: Any) -> str:
    """Format a large integer as text, which a float attribute would round; return '' for others."""
    is_large = isinstance(value, int) and abs(value) > 1 << 24
    return str(value) if is_large else ""


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor of zeros, by default of the default dtype (paddle.zeros)."""
    return full(shape, 0.0, dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor of ones, by default of the default dtype (paddle.ones)."""
    return full(shape, 1.0, dtype, name)


def full_like(x: Variable, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor filled with one number, in the shape of `x` (paddle.full_like).

    Without `dtype` it has the dtype of `x`. Dimensions may be known only at run time. No gradient
    flows through the result.
    """
    arguments.variable(x, "x", "full_like")
    if isinstance(fill_value, Variable):
        shape = emit("shape", {"Input": x}, stop_gradient=True)
        return full(shape, fill_value, dtype or x.dtype, name)
    value = arguments.number(fill_value, "fill_value", "full_like")
    code = -1 if dtype is None else arguments.dtype(dtype, "dtype", "full_like").code
    attrs = {"value": value, "dtype": code}
    return emit("fill_any_like", {"X": x}, attrs, layer="full_like", name=name, stop_gradient=True)


def zeros_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor of zeros in the shape of `x` (paddle.zeros_like)."""
    return full_like(x, 0.0, dtype, name)


def ones_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor of ones in the shape of `x` (paddle.ones_like)."""
    return full_like(x, 1.0, dtype, name)


def _as_array(value: Any, function: str) -> np.ndarray[Any, Any]:
    """Convert a constant to an array; Python floats get the default dtype, NumPy's keep theirs."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{function}(): the data is not a regular array: {error}") from None
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{function}(): cannot make a tensor of {array.dtype} data")
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(get_default_dtype().numpy)
    return array


def _write_values(array: np.ndarray[Any, Any], target: Variable) -> None:
    """Append the operators that write the values of an array to a Variable."""
    helper = LayerHelper("assign")
    if array.dtype.kind != "c":
        helper.append_op("assign_value", {}, {"Out": target}, value_attrs(array))
        return
    parts = {"X": helper.temporary(), "Y": helper.temporary()}
    _write_values(array.real, parts["X"])
    _write_values(array.imag, parts["Y"])
    helper.append_op("complex", parts, {"Out": target})


def assign(x: Any, output: Variable | None = None) -> Variable:
    """Copy a Variable, or create a tensor from an array, list or number (paddle.assign).

    With `output` the values are written to that Variable, which keeps its name.
    """
    helper = LayerHelper("assign")
    target = helper.temporary() if output is None else output
    arguments.variable(target, "output", "assign")
    if isinstance(x, Variable):
        helper.append_op("assign", {"X": x}, {"Out": target})
    else:
        # as in Paddle, a lone number makes one element
        _write_values(_as_array([x] if np.isscalar(x) else x, "assign"), target)
    return target


def clone(x: Variable, name: str | None = None) -> Variable:
    """Copy `x`; gradients flow through the copy (paddle.clone)."""
    own = f"{arguments.variable(x, 'x', 'clone').name}_clone"
    return emit_as(unique_name.generate(own), "assign", {"X": x})


def to_tensor(
    data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True
) -> Variable:
    """Create a constant from an array, list or number; return a Variable unchanged.

    Without `dtype`, Python floats get the default dtype, Python ints int64 and complex numbers
    complex128; arrays keep their dtype. `place` is ignored: the executor decides where a program
    runs. Paddle page: paddle.to_tensor.
    """
    if isinstance(data, Variable):
        return data
    array = _as_array(data, "to_tensor")
    if dtype is not None:
        array = array.astype(arguments.dtype(dtype, "dtype", "to_tensor").numpy)
    with static_mode():  # a constant of a traced function may be created in dynamic mode
        made = LayerHelper("assign").temporary()
        _write_values(array, made)
        made.stop_gradient = stop_gradient
        return made


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """Create a parameter of the main program (paddle.static.create_parameter).

    All dimensions must be known. Without an initializer, biases start at 0 and weights from
    XavierUniform. Raises TypeError or ValueError for arguments of the wrong kind.
    """
    dims = arguments.shape(shape, "create_parameter")
    element = arguments.dtype(dtype, "dtype", "create_parameter")
    chosen = as_weight_attr(ParamAttr(name=name) if attr is None else attr, "create_parameter")
    return LayerHelper("create_parameter").parameter(
        chosen, dims, element, is_bias=is_bias, default_initializer=default_initializer
    )


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """Create a variable that the startup program sets to one value (static.create_global_var).

    With `persistable` the value lives on between runs. `force_cpu` has no effect: XLA decides where
    values are.
    """
    dims = arguments.shape(shape, "create_global_var")
    number = arguments.number(value, "value", "create_global_var")
    element = as_dtype(dtype)
    if element.is_complex:
        raise TypeError(
            f"create_global_var(): 'dtype' should not be {element}; make two variables, of the "
            "real and the imaginary part"
        )
    chosen = name or unique_name.generate("_generated_var")
    flags = {"persistable": persistable, "stop_gradient": True}
    made = default_main_program().global_block().create_var(chosen, dims, element, **flags)
    block = default_startup_program().global_block()
    # values of the startup program pass through the scope, which keeps only persistable variables
    twin = block.create_var(chosen, dims, element, persistable=True, stop_gradient=True)
    Constant(number)(twin, block)
    return made


lazy.join_package(globals())
