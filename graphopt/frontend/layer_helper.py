"""Appending operators with new output variables and parameters, under Paddle's automatic names.

`LayerHelper("fc")` is called `fc_0`; its temporaries are `fc_0.tmp_0`, …, its parameters
`fc_0.w_0`, `fc_0.b_0`. Every public function of the front end goes through here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import sequence_notes as sequence_notes  # passes lengths on to results
from graphopt.frontend.initializers.base import Initializer
from graphopt.frontend.initializers.defaults import default_initializer_of
from graphopt.frontend.mode import current_op_attrs, get_default_dtype, require_static
from graphopt.frontend.parameters import ParamAttr
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import (
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    unique_name,
)

Slots = Mapping[str, Any]


class LayerHelper:
    """Appends the operators of one layer call to the default main program.

    `name` replaces the generated name `<layer_type>_<number>`. Raises UnsupportedError in dynamic
    mode.
    """

    def __init__(self, layer_type: str, name: str | None = None) -> None:
        require_static(allow_constants=True)
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{layer_type}(): the argument 'name' must be a str, found {type(name).__name__}"
            )
        self.layer_type = layer_type
        self.name = name or unique_name.generate(layer_type)

    @property
    def main_program(self) -> Program:
        """The program that operators go to."""
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        """The program that initializes parameters."""
        return default_startup_program()

    def temporary(self, *, stop_gradient: bool = False) -> Variable:
        """Create a variable in the current block; the operator that writes it decides its type."""
        name = unique_name.generate(f"{self.name}.tmp")
        return self.main_program.current_block().create_var(name, stop_gradient=stop_gradient)

    def append_op(
        self, type: str, inputs: Slots, outputs: Slots, attrs: Mapping[str, Any] | None = None
    ) -> Operator:
        """Append an operator to the current block; raise ProgramError if operands do not fit."""
        merged = {**current_op_attrs(), **(attrs or {})}
        return self.main_program.current_block()._append_op(type, inputs, outputs, merged)

    def emit(
        self,
        type: str,
        inputs: Slots,
        attrs: Mapping[str, Any] | None = None,
        *,
        out: str = "Out",
        stop_gradient: bool = False,
    ) -> Variable:
        """Append an operator and return its output, a new temporary in the slot `out`."""
        return self.emit_all(type, inputs, attrs, (out,), stop_gradient=stop_gradient)[0]

    def emit_all(
        self,
        type: str,
        inputs: Slots,
        attrs: Mapping[str, Any] | None,
        outs: Sequence[str],
        *,
        stop_gradient: bool = False,
    ) -> list[Variable]:
        """Append an operator and return its outputs, one new temporary per output slot."""
        made = [self.temporary(stop_gradient=stop_gradient) for _ in outs]
        self.append_op(type, inputs, dict(zip(outs, made, strict=True)), attrs)
        return made

    def emit_unnamed(
        self, type: str, inputs: Slots, attrs: Mapping[str, Any] | None, outs: Sequence[str]
    ) -> list[Variable]:
        """Emit as `emit_all`, for layers whose outputs Paddle calls `_generated_var_0`, …"""
        block = self.main_program.current_block()
        made = [block.create_var() for _ in outs]
        self.append_op(type, inputs, dict(zip(outs, made, strict=True)), attrs)
        return made

    def parameter(
        self,
        attr: ParamAttr,
        shape: Sequence[int],
        dtype: Any = None,
        *,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
        stop_gradient: bool = False,
    ) -> Parameter:
        """Create a parameter in the main program, and its initializer in the startup program.

        A parameter of the same name and shape is shared, and initialized once.
        """
        name = attr.name or unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        element = as_dtype(dtype or get_default_dtype())
        options = attr.parameter_options()
        made = self.main_program.global_block().create_parameter(name, shape, element, **options)
        if stop_gradient:
            made.stop_gradient = True
        block = self.startup_program.global_block()
        if name not in block.vars:
            twin = block.create_parameter(name, shape, element, **options)
            default_initializer_of(attr.initializer, is_bias, default_initializer)(twin, block)
        return made

    def append_activation(self, x: Variable, act: str | None) -> Variable:
        """Apply the activation operator of this name to `x`; return `x` if it is None."""
        if act is None:
            return x
        if not isinstance(act, str):
            raise TypeError(
                f"{self.layer_type}(): the activation must be a str, found {type(act).__name__}"
            )
        from graphopt.ir.translate.operators.registry import TRANSLATIONS
        from graphopt.ir.translate.operators.table import BY_TYPE

        if act not in BY_TYPE and act not in TRANSLATIONS:
            from difflib import get_close_matches

            near = get_close_matches(act, BY_TYPE, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise UnsupportedError(f"{self.layer_type}(): '{act}' is not a known activation{hint}")
        return self.emit(act, {"X": x})

    def append_bias(self, x: Variable, attr: ParamAttr | None, size: int, axis: int) -> Variable:
        """Add a new bias of length `size` along `axis` of x; return x when attr is None."""
        if attr is None:
            return x
        bias = self.parameter(attr, [size], x.dtype, is_bias=True)
        return self.emit("elementwise_add", {"X": x, "Y": bias}, {"axis": axis})


def emit(
    type: str,
    inputs: Slots,
    attrs: Mapping[str, Any] | None = None,
    *,
    layer: str | None = None,
    name: str | None = None,
    out: str = "Out",
    stop_gradient: bool = False,
) -> Variable:
    """Append one operator with one new output, named after `layer` (default: the operator type)."""
    helper = LayerHelper(layer or type, name)
    return helper.emit(type, inputs, attrs, out=out, stop_gradient=stop_gradient)


def emit_as(
    name: str,
    type: str,
    inputs: Slots,
    attrs: Mapping[str, Any] | None = None,
    *,
    stop_gradient: bool = False,
) -> Variable:
    """Append one operator whose new output is called `name`."""
    require_static(allow_constants=True)
    block = default_main_program().current_block()
    made = block.create_var(name, stop_gradient=stop_gradient)
    merged = {**current_op_attrs(), **(attrs or {})}
    block._append_op(type, inputs, {"Out": made}, merged)
    return made


def emit_whole(
    type: str,
    inputs: Slots,
    attrs: Mapping[str, Any] | None = None,
    *,
    layer: str,
    name: str | None,
) -> Variable:
    """Append one operator whose new output is called `name`, by default `<layer>_0`.

    If the name is taken, the output gets a numbered name, as other layers' results do.
    """
    own = name or unique_name.generate(layer)
    if default_main_program().current_block().find_var(own) is not None:
        return emit(type, inputs, attrs, name=own)
    return emit_as(own, type, inputs, attrs)


def emit_into(
    output: Variable | None,
    type: str,
    inputs: Slots,
    attrs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    stop_gradient: bool = False,
) -> Variable:
    """Append one operator that writes to `output`, or to a new variable if that is None."""
    if output is None:
        return emit(type, inputs, attrs, name=name, stop_gradient=stop_gradient)
    LayerHelper(type, name).append_op(type, inputs, {"Out": output}, attrs)
    return output
