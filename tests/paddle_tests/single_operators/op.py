"""Single operators that run on the variables of a scope, without a program (paddle.fluid.op)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphopt.errors import ScopeError
from graphopt.fluid.executor import Executor
from graphopt.frontend.lod_tensor import create_lod_tensor
from graphopt.ir.operators import operators
from graphopt.ir.program import GRAD_SUFFIX, Block, Program
from graphopt.ir.translate.operators.registry import TRANSLATIONS
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot

from .output_slots import output_slots
from .sparse_operators import SPARSE_TYPES, SparseRun, is_sparse, run_sparse

Names = Mapping[str, list[str]]


class Single:
    """One operator: its type, the names of variables by slot, and its attributes."""

    def __init__(self, type: str, inputs: Names, outputs: Names, attrs: Mapping[str, Any]) -> None:
        self._type, self._inputs, self._outputs, self._attrs = type, inputs, outputs, attrs
        # the last program and the types of variables that it was made for
        self._made: tuple[Any, Program] | None = None

    def __str__(self) -> str:
        """Format the type, and the variables by slot, as Paddle does."""
        inputs, outputs = (
            ", ".join(f"{slot}[{', '.join(names)}]" for slot, names in slots.items())
            for slots in (self._inputs, self._outputs)
        )
        return f"Op({self._type}), inputs:{{{inputs}}}, outputs:{{{outputs}}}."

    def type(self) -> str:
        """Return the operator type."""
        return self._type

    def inputs(self) -> dict[str, list[str]]:
        """Return the names of the variables that it reads, by slot."""
        return {slot: list(names) for slot, names in self._inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        """Return the names of the variables that it writes, by slot."""
        return {slot: list(names) for slot, names in self._outputs.items()}

    def input_vars(self) -> list[str]:
        """Return the names of all variables that it reads."""
        return [name for names in self._inputs.values() for name in names]

    def output_vars(self) -> list[str]:
        """Return the names of all variables that it writes."""
        return [name for names in self._outputs.values() for name in names]

    def run(self, scope: Scope, place: Any) -> None:
        """Read the inputs from a scope, and write the outputs there with their lengths.

        Raises ScopeError (RuntimeError) for an input without a value.
        """
        if any(is_sparse(scope, name) for name in self.input_vars()):
            own = self._type, self._inputs, self._outputs, self._attrs
            run_sparse(SparseRun(*own, scope, lambda inner: self._run(inner, place)))
        else:
            self._run(scope, place)

    def _run(self, scope: Scope, place: Any) -> None:
        slots = {name: _with_value(scope, name, self._type) for name in self.input_vars()}
        key = {name: (slot.value_type(), len(slot.lengths)) for name, slot in slots.items()}
        if self._made is None or self._made[0] != key:
            self._made = key, self._program(slots)
        feed = {
            name: create_lod_tensor(slot.numpy(), slot.lengths, place)
            for name, slot in slots.items()
            if slot.lengths
        }
        names = self.output_vars()
        found = Executor(place).run(
            self._made[1], feed=feed, fetch_list=names, scope=scope, return_numpy=False
        )
        for name, value in zip(names, found, strict=True):
            made = scope.find_var(name) or scope.var(name)
            made.put(np.array(value))
            made.lengths = value.recursive_sequence_lengths()

    def _program(self, slots: Mapping[str, Slot]) -> Program:
        """Build a program of this operator; variables with lengths are fed."""
        program = Program()
        program.is_fluid = True
        block = program.global_block()
        for name, slot in slots.items():
            _declare(block, name, slot)
        for name in self.output_vars():
            block.create_var(name)
        block.append_op(self._type, self._inputs, self._outputs, self._attrs)
        return program


def _with_value(scope: Scope, name: str, type: str) -> Slot:
    slot = scope.find_var(name)
    if slot is None or not slot.is_initialized():
        raise ScopeError(f"operator {type} reads '{name}', which has no value in the scope")
    return slot


def _declare(block: Block, name: str, slot: Slot) -> None:
    found = slot.value_type()
    assert found is not None
    shape, dtype = found
    levels = len(slot.lengths)
    options = {"lod_level": levels, "is_data": True} if levels else {"persistable": True}
    block.create_var(name, [-1, *shape[1:]] if levels else shape, dtype.name, **options)


class OperatorFactory:
    """Makes operators of a type from keyword arguments: names of variables, and attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Single:
        """Make the operator; ValueError for an unknown type, or a second positional argument."""
        positional = list(args)
        if "type" in kwargs:
            positional.append(kwargs.pop("type"))
        if len(positional) != 1:
            raise ValueError(
                "Operator(): only the operator type is positional; give slots and attributes by "
                "their names"
            )
        type = positional[0]
        if type.removesuffix("_grad") not in self.types():
            raise ValueError(f"The operator: {type} is not registered.")
        row = operators().get(type)
        known = {} if row is None else row.attributes
        outs = self.get_op_output_names(type)
        inputs: dict[str, list[str]] = {}
        outputs: dict[str, list[str]] = {}
        attrs: dict[str, Any] = {}
        for name, value in kwargs.items():
            if value is None:
                continue
            if name in outs or (type.endswith("_grad") and name.endswith(GRAD_SUFFIX)):
                is_input = name.removesuffix(GRAD_SUFFIX) in outs and name not in outs
                (inputs if is_input else outputs)[name] = _listed(value)
            elif name not in known and _are_names(value):
                inputs[name] = _listed(value)
            else:
                attrs[name] = value
        return Single(type, inputs, outputs, attrs)

    def types(self) -> list[str]:
        """List the known operator types."""
        return sorted({*BY_TYPE, *TRANSLATIONS, *SPARSE_TYPES})

    def get_op_output_names(self, type: str) -> list[str]:
        """List the names of the output slots of a type."""
        return list(output_slots(type.removesuffix("_grad")))


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _are_names(value: Any) -> bool:
    items = [value] if isinstance(value, str) else value
    return isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items)


Operator = OperatorFactory()
