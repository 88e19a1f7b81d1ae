"""Names, variables and operators for the layers that scripts define (fluid.layer_helper)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphopt.fluid import sequence_operators as sequence_operators
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import LayerHelper as _Layer
from graphopt.frontend.mode import current_op_attrs
from graphopt.frontend.parameters import ParamAttr, as_param_attr
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Operator, Parameter, Program, Variable
from graphopt.static.nn.weights import weight


class LayerHelper:
    """Names, variables, parameters and operators of one layer call.

    The keyword arguments come from the layer, usually from its `locals()`; `input`, `param_attr`,
    `bias_attr`, `act` and `name` are read from them.
    """

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        self._layer = _Layer(layer_type, kwargs.get("name"))
        self.kwargs = {**kwargs, "name": self._layer.name}

    @property
    def name(self) -> str:
        """The name of this call, `<layer type>_<number>` unless one was given."""
        return self._layer.name

    @property
    def layer_type(self) -> str:
        """The type of the layer."""
        return self._layer.layer_type

    @property
    def main_program(self) -> Program:
        """The program that gets the operators."""
        return self._layer.main_program

    @property
    def startup_program(self) -> Program:
        """The program that initializes parameters."""
        return self._layer.startup_program

    def append_op(
        self,
        type: str,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
        stop_gradient: bool = False,
    ) -> Operator:
        """Append an operator to the current block, and infer the types of its outputs.

        A sequence operator becomes the layer of its name, which knows the lengths.
        """
        merged = {**current_op_attrs(), **(attrs or {})}
        block = self._layer.main_program.current_block()
        return block.append_op(type, inputs, outputs, merged, stop_gradient)

    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """Return the argument of this name as a list of Variables."""
        given = self.kwargs.get(input_param_name, [])
        items = given if isinstance(given, (list, tuple)) else [given]
        return [self.to_variable(item) for item in items]

    def input(self, input_param_name: str = "input") -> Variable:
        """Return the argument of this name, which must be one Variable."""
        found = self.multiple_input(input_param_name)
        if len(found) != 1:
            raise ValueError(f"{self.layer_type}() takes one '{input_param_name}'")
        return found[0]

    def input_dtype(self, input_param_name: str = "input") -> DType | None:
        """Return the dtype of the inputs; ValueError if they differ, None without inputs."""
        dtypes = [x.dtype for x in self.multiple_input(input_param_name)]
        if len(set(dtypes)) > 1:
            raise ValueError(f"{self.layer_type}(): inputs of the dtypes {', '.join(dtypes)}")
        return dtypes[0] if dtypes else None

    def to_variable(self, value: Any, name: str | None = None) -> Variable:
        """Check that `value` is a Variable, and return it."""
        return arguments.variable(value, "value", self.layer_type)

    @property
    def param_attr(self) -> Any:
        """The argument `param_attr` as a ParamAttr, a list of them, or False."""
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        """The argument `bias_attr` as a ParamAttr, a list of them, or False."""
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list[Any]:
        """Return `param_attr` for each of several inputs: one each, or one for all."""
        attrs = self.param_attr if isinstance(self.param_attr, list) else [self.param_attr]
        if len(attrs) not in (1, length):
            raise ValueError(
                f"{self.layer_type}(): {len(attrs)} values of 'param_attr' for {length} inputs"
            )
        return attrs if len(attrs) == length else attrs * length

    def iter_inputs_and_params(
        self, input_param_name: str = "input"
    ) -> Iterator[tuple[Variable, Any]]:
        """Iterate over the inputs, each with its `param_attr`."""
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)), strict=True)

    def create_parameter(
        self,
        attr: Any,
        shape: Any,
        dtype: Any,
        is_bias: bool = False,
        default_initializer: Any = None,
        stop_gradient: bool = False,
        type: Any = None,
    ) -> Variable | None:
        """Create a parameter `<name>.w_<number>` or `<name>.b_<number>`; None if `attr` is False.

        Raises TypeError for integers without an initializer. `type` has no effect: parameters are
        dense.
        """
        own = as_param_attr(attr)
        if own is None:
            return None
        element = arguments.dtype(dtype, "dtype", self.layer_type)
        if not (element.is_floating or default_initializer or own.initializer):
            raise TypeError(f"{self.layer_type}(): a parameter of {element} has no initializer")
        options: dict[str, Any] = {"default_initializer": default_initializer}
        if not is_bias:
            made = weight(self._layer, own, shape, element, **options)
        else:
            made = self._layer.parameter(own, shape, element, is_bias=True, **options)
        made.stop_gradient = made.stop_gradient or stop_gradient
        return made

    def get_parameter(self, name: str) -> Parameter:
        """Find the parameter of this name; raise ValueError if there is none."""
        found = self.main_program.global_block().var(name)
        if not isinstance(found, Parameter):
            raise ValueError(f"'{name}' is no parameter")
        return found

    def create_variable_for_type_inference(
        self, dtype: Any, stop_gradient: bool = False, shape: Any = None
    ) -> Variable:
        """Create a variable in the current block; the operator that writes it sets its shape."""
        made = self._layer.temporary(stop_gradient=stop_gradient)
        if dtype is not None:
            made.dtype = dtype
        if shape is not None:
            made.shape = shape
        return made

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """Create a variable in the current block (see `Block.create_var`)."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(
        self, persistable: bool = False, *args: Any, **kwargs: Any
    ) -> Variable:
        """Create a variable in the global block, without an initializer."""
        block = self.main_program.global_block()
        return block.create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(
        self, name: str, *args: Any, **kwargs: Any
    ) -> tuple[Variable, bool]:
        """Return the global block's variable of this name, and True if it is new."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Any) -> None:
        """Let the startup program initialize a persistable variable."""
        block = self.startup_program.global_block()
        twin = block.create_var(var.name, var.shape, var.dtype, persistable=True)
        initializer(twin, block)

    def append_bias_op(
        self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None
    ) -> Variable:
        """Add a new bias with the dimensions of `input_var` from `dim_start` to `dim_end`.

        Returns `input_var` unchanged if `bias_attr` is False.
        """
        size = list(input_var.shape[dim_start:dim_end])
        bias = self.create_parameter(self.bias_attr, size, input_var.dtype, is_bias=True)
        if bias is None:
            return input_var
        inputs = {"X": input_var, "Y": bias}
        return self._layer.emit("elementwise_add", inputs, {"axis": dim_start})

    def append_activation(self, input_var: Variable) -> Variable:
        """Apply the activation that the argument `act` names, if any."""
        return self._layer.append_activation(input_var, self.kwargs.get("act"))

    def is_instance(self, param_name: str, cls: Any) -> None:
        """Raise TypeError unless the argument of this name is an instance of the class."""
        found = self.kwargs.get(param_name)
        if not isinstance(found, cls):
            raise TypeError(
                f"{self.layer_type}(): '{param_name}' must be a {cls.__name__}, found "
                f"{type(found).__name__}"
            )


# in 1.8, the common base class of helpers for static programs and dynamic mode
LayerHelperBase = LayerHelper

publish(globals(), __name__)
