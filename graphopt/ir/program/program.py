"""The names-level model of a program: scripts build it, and saved models decode to it.

A `Program` is a list of `Block`s; a block has `Variable`s by name and `Operator`s in order, which
may overwrite names. The four classes refer to each other, so they are in one file. The translation
(`ir/translate/blocks/program.py`) converts names to SSA values. Paddle page: paddle.static.Program.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, cast

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dtypes import DType, TypeCode, as_dtype
from graphopt.ir.program import undo, unique_name
from graphopt.ir.program.attached import ProgramMethods, VariableMethods
from graphopt.ir.program.dist_attr import OperatorDistAttr
from graphopt.ir.program.feed_source import FeedSource
from graphopt.ir.program.gradient_types import GRAD_TYPE, NAMING, forward_type
from graphopt.ir.program.kinds import (
    COLLECTIVES,
    EMPTY,
    GRAD_SUFFIX,
    AttrKind,
    OpRole,
    VarKind,
)
from graphopt.ir.program.location import Location, caller_location
from graphopt.ir.program.sizes import Sizes


class Variable(VariableMethods):
    """A named tensor of a block.

    `shape` is a tuple with -1 for a dimension known only when the program runs; `dtype` is a
    `DType`. `stop_gradient=True` keeps gradients from flowing through it. `saved` holds the bytes
    of a loaded variable's declaration, which the writer repeats if nothing was changed.
    """

    saved: bytes | None = None
    takes_any_shape = False
    """Feeds may have a type other than this one, as in `fluid.layers.data` of Paddle 1.8."""
    sequence_lengths: tuple[str | tuple[int, ...] | int, ...] | None = None
    """The lengths of its sequences, an entry per level, outermost first; None if not noted.

    An entry is the name of an int64 variable, numbers, or one number for all sequences.
    """
    lengths_for = ""
    """The call that needs its sequence lengths; set when it was declared without them."""
    rows_for = ""
    """The call that took its rows as independent, because it was declared without lengths."""
    notes: Mapping[str, Any] = MappingProxyType({})
    """Notes of scripts about the variable, set by `_set_info`."""
    computed_on_demand = False
    """The variable is a gradient that no operator computes before its first use."""

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        *,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        is_parameter: bool = False,
        lod_level: int = 0,
        kind: int = VarKind.DENSE_TENSOR,
        belong_to_optimizer: bool = False,
        error_clip: Any = None,
    ) -> None:
        self.block = block
        self.name = name
        self._shape = None if shape is None else Sizes(shape)
        self._dtype = None if dtype is None else as_dtype(dtype)
        self.persistable = persistable
        self.stop_gradient = stop_gradient
        self.is_data = is_data
        self.need_check_feed = need_check_feed
        self.is_parameter = is_parameter
        self.lod_level = lod_level
        self.kind = kind
        self.belong_to_optimizer = belong_to_optimizer
        self.error_clip = error_clip

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, -1 where unknown until run time."""
        if self._shape is None:
            if self.takes_any_shape:
                return Sizes(())
            raise ProgramError(f"the shape of variable '{self.name}' is not known yet")
        return self._shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = Sizes(shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        if self._dtype is None:
            raise ProgramError(f"the dtype of variable '{self.name}' is not known yet")
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self._dtype = as_dtype(dtype)

    @property
    def has_type(self) -> bool:
        """True when both shape and dtype are known."""
        return self._shape is not None and self._dtype is not None

    @property
    def has_dtype(self) -> bool:
        """True when the dtype is known."""
        return self._dtype is not None

    def check_same(
        self,
        shape: Any = None,
        dtype: Any = None,
        lod_level: int | None = None,
        persistable: bool | None = None,
        **_: Any,
    ) -> None:
        """Raise ProgramError when the variable has another shape, dtype, level or persistence."""
        facts = {
            "shape": (self._shape, None if shape is None else Sizes(shape)),
            "dtype": (self._dtype, None if dtype is None else as_dtype(dtype)),
            "lod_level": (self.lod_level, lod_level),
            "persistable": (self.persistable, persistable),
        }
        for fact, (old, new) in facts.items():
            if None not in (old, new) and old != new:
                raise ProgramError(
                    f"Variable '{self.name}' has been created before with {fact} {old}, not {new}; "
                    "give the other variable another name"
                )

    @property
    def grad_name(self) -> str:
        """The name of this variable's gradient."""
        return self.name + GRAD_SUFFIX

    def copy_to(self, block: Block) -> Variable:
        """Copy the variable to another block."""
        twin = copy.copy(self)
        twin.block = block
        return twin

    def __repr__(self) -> str:
        shape = "?" if self._shape is None else ", ".join(map(str, self._shape))
        flags = "".join(
            f", {flag}" for flag in ("persistable", "stop_gradient") if getattr(self, flag)
        )
        return f"var {self.name} : [{shape}] {self._dtype}{flags}"

    @property
    def type(self) -> int:
        """The number of the variable's kind in Paddle's `VarType.Type` enumeration."""
        return self.kind

    @property
    def op(self) -> Operator | None:
        """The last operator of the variable's block that writes it; None when none does."""
        ops = reversed(self.block.ops)
        return next((op for op in ops if self.name in op.output_arg_names), None)

    def set_error_clip(self, error_clip: Any) -> None:
        """Record how to clip the variable's gradient; without effect, as in Paddle 2."""
        self.error_clip = error_clip

    _set_error_clip = set_error_clip

    def _set_info(self, key: str, value: Any) -> None:
        undo.note_attributes(self, "notes")
        self.notes = {**self.notes, key: value}

    def _get_info(self, key: str) -> Any:
        return self.notes.get(key)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Format the variable, `with_details` with the settings that steer training."""
        details = "".join(f", {name}={value!r}" for name, value in self.details().items())
        return f"{self!r}{details if with_details else ''}"

    def details(self) -> dict[str, Any]:
        """Return the settings that steer training, by name."""
        return {"lod_level": self.lod_level, "error_clip": self.error_clip}

    def _to_readable_code(self) -> str:
        return repr(self)


class Parameter(Variable):
    """A persistable variable that optimizers update.

    `trainable`, `optimize_attr` (its `learning_rate` multiplies the optimizer's), `regularizer` and
    `need_clip` steer `Optimizer.minimize`, `do_model_average` the averages for evaluation;
    `gradient_clip_attr` is set by `fluid.clip.set_gradient_clip`. `flags` are the keywords of
    Variable.
    """

    gradient_clip_attr: Any = None

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        trainable: bool = True,
        optimize_attr: Mapping[str, Any] | None = None,
        regularizer: Any = None,
        need_clip: bool = True,
        do_model_average: bool = True,
        is_distributed: bool = False,
        **flags: Any,
    ) -> None:
        flags = {**flags, "persistable": True, "is_parameter": True}
        if "type" in flags:
            flags["kind"] = int(flags.pop("type"))
        flags.setdefault("stop_gradient", not trainable)
        super().__init__(block, name, shape, dtype, **flags)
        self.trainable = trainable
        self.optimize_attr = dict(optimize_attr or {"learning_rate": 1.0})
        self.regularizer = regularizer
        self.need_clip = need_clip
        self.do_model_average = do_model_average
        self.is_distributed = is_distributed

    def details(self) -> dict[str, Any]:
        """Return the settings that steer training, by name."""
        names = ("trainable", "optimize_attr", "regularizer", "do_model_average", "need_clip")
        return {**super().details(), **{name: getattr(self, name) for name in names}}


class Operator:
    """One step of a block: a type, named slots of variable names, attributes.

    `location` is the user's source line, None where a loaded model has none. `attr_kinds` has the
    `AttrKind` of each attribute of a loaded operator; for an operator created here, of each
    attribute whose value a variable holds. `saved` holds the bytes of a loaded operator, which the
    writer repeats if nothing was changed. `is_loaded` is True for operators of files, whose slots
    and attributes are unchecked. A copy in another program keeps the `release` of the file.
    """

    saved: bytes | None = None
    is_loaded = False
    _release: int | None = None

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        location: Location | None = None,
    ) -> None:
        self.block = block
        self.type = type
        self.inputs = {slot: list(names) for slot, names in inputs.items()}
        self.outputs = {slot: list(names) for slot, names in outputs.items()}
        self.attrs = dict(attrs)
        self.attr_kinds: dict[str, int] = {}
        self.location = location

    def copy_to(self, block: Block) -> Operator:
        """Copy the operator to another block."""
        twin = Operator(block, self.type, self.inputs, self.outputs, self.attrs, self.location)
        twin.attr_kinds = dict(self.attr_kinds)
        twin.saved = self.saved
        twin.is_loaded = self.is_loaded
        if self.is_loaded:
            twin._release = self.release
        return twin

    @property
    def release(self) -> int:
        """The release that wrote its file (2006002 for 2.6.2), 0 if unknown or in no file."""
        if not self.is_loaded:
            return 0
        return saved_version(self.block.program) if self._release is None else self._release

    @cached_property
    def dist_attr(self) -> OperatorDistAttr:
        """Its scheduling hints, without effect."""
        return OperatorDistAttr(self.type)

    def input(self, slot: str) -> list[str]:
        """Return the variable names in an input slot, [] when the slot is absent."""
        return list(self.inputs.get(slot, ()))

    def output(self, slot: str) -> list[str]:
        """Return the variable names in an output slot, [] when the slot is absent."""
        return list(self.outputs.get(slot, ()))

    @property
    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """Every variable name read, in slot order, then variables that hold attribute values."""
        names = [name for names in self.inputs.values() for name in names if name != EMPTY]
        for attribute, kind in self.attr_kinds.items():
            if kind in (AttrKind.VAR, AttrKind.VARS) and attribute in self.attrs:
                value = self.attrs[attribute]
                items = cast(Sequence[Any], value) if isinstance(value, (list, tuple)) else [value]
                names += [item.name if isinstance(item, Variable) else item for item in items]
        return names

    @property
    def output_arg_names(self) -> list[str]:
        """Every variable name written, in slot order."""
        return [name for names in self.outputs.values() for name in names if name != EMPTY]

    @property
    def role(self) -> int:
        """The `op_role` flags, Forward when unset."""
        return int(self.attrs.get("op_role", OpRole.FORWARD))

    def attr(self, name: str) -> Any:
        """Return the value of an attribute; raise ValueError when the operator lacks it.

        The number of a dtype equals the dtype, too, as in Paddle.
        """
        if name in self.attrs:
            value = self.attrs[name]
            return TypeCode(value) if name in _TYPES and type(value) is int else value
        if name in _ON_EVERY_OPERATOR:
            return _ON_EVERY_OPERATOR[name]
        raise ValueError(f"operator {self.type} has no attribute '{name}'")

    def has_attr(self, name: str) -> bool:
        """True when the attribute is set, or when every operator has it."""
        return name in self.attrs or name in _ON_EVERY_OPERATOR

    def all_attrs(self) -> dict[str, Any]:
        """Copy the attributes."""
        return dict(self.attrs)

    @property
    def attr_names(self) -> list[str]:
        """The names of the attributes that are set."""
        return list(self.attrs)

    def _set_attr(self, name: str, value: Any) -> None:
        undo.note(setattr, self, "attrs", dict(self.attrs))
        self.attrs[name] = value
        self.block.program.touch()

    def _remove_attr(self, name: str) -> None:
        undo.note(setattr, self, "attrs", dict(self.attrs))
        self.attrs.pop(name, None)
        self.block.program.touch()

    def attr_type(self, name: str) -> int:
        """Return the `AttrKind` of an attribute; raise ValueError when the operator lacks it."""
        value = self.attr(name)
        if name in self.attr_kinds:
            return self.attr_kinds[name]
        if not isinstance(value, (list, tuple)):
            return _kind(value)
        items = cast("Sequence[object]", value)
        return _LISTS[_kind(items[0]) if items else AttrKind.INT]

    @property
    def idx(self) -> int:
        """The position in the block; ValueError when the operator has been removed from it."""
        for position, op in enumerate(self.block.ops):
            if op is self:
                return position
        raise ValueError(f"operator {self.type} is not in its block any more")

    def rename(self, name: str, new_name: str) -> None:
        """Replace a variable by another one in inputs, outputs and attributes."""
        self._rename_input(name, new_name)
        self._rename_output(name, new_name)

    def _rename_input(self, old_name: str, new_name: str) -> None:
        undo.note_attributes(self, "inputs", "saved")
        self.inputs = _rename_in_slots(self.inputs, old_name, new_name)
        self._rename_in_attrs(old_name, new_name)
        self.saved = None
        self.block.program.touch()

    def _rename_output(self, old_name: str, new_name: str) -> None:
        undo.note_attributes(self, "outputs", "saved")
        self.outputs = _rename_in_slots(self.outputs, old_name, new_name)
        self._rename_in_attrs(old_name, new_name)
        self.saved = None
        self.block.program.touch()

    def _rename_in_attrs(self, old_name: str, new_name: str) -> None:
        """Rename a variable in the attributes that name variables, as Paddle's RenameInput does."""
        named = {name: self.attrs[name] for name in NAMING if old_name in self.attrs.get(name, ())}
        if named:
            undo.note(setattr, self, "attrs", dict(self.attrs))
            self.attrs.update(_rename_in_slots(named, old_name, new_name))

    def __repr__(self) -> str:
        def slots(slots: Mapping[str, Sequence[str]]) -> str:
            return ", ".join(f"{slot}=[{', '.join(names)}]" for slot, names in slots.items())

        shown = [
            f"{name}={value!r}"
            for name, value in sorted(self.attrs.items())
            if name not in ("op_callstack", "op_namescope", "op_device")
        ]
        arguments = ", ".join(filter(None, [slots(self.inputs), *shown]))
        where = f"  # {self.location}" if self.location else ""
        return f"{{{slots(self.outputs)}}} = {self.type}({arguments}){where}"

    def to_string(self, throw_on_error: bool = False) -> str:
        """Format the operator; the argument is accepted for compatibility."""
        return repr(self)

    def _to_readable_code(self, skip_op_callstack: bool = True) -> str:
        return repr(self)


def is_sparse_lookup(op: Operator) -> bool:
    """True for a lookup whose gradient has only the rows that were looked up."""
    is_lookup = op.type in ("lookup_table", "lookup_table_v2")
    return is_lookup and bool(op.attrs.get("is_sparse")) and op.input("W") != [EMPTY]


def is_gradient(op: Operator) -> bool:
    """True for an operator whose type marks it as the gradient of another operator."""
    return forward_type(op.type) is not None


_TYPES = frozenset(("dtype", "in_dtype", "out_dtype"))
_ON_EVERY_OPERATOR = {"op_role": OpRole.FORWARD, "op_namescope": "/", "op_device": ""}
_KINDS: Mapping[type, int] = {
    bool: AttrKind.BOOLEAN,
    int: AttrKind.INT,
    float: AttrKind.FLOAT,
    str: AttrKind.STRING,
}
_LISTS = {
    AttrKind.BOOLEAN: AttrKind.BOOLEANS,
    AttrKind.INT: AttrKind.INTS,
    AttrKind.FLOAT: AttrKind.FLOATS,
    AttrKind.STRING: AttrKind.STRINGS,
}


def _kind(value: object) -> int:
    return _KINDS.get(type(value), AttrKind.STRING)


def _rename_in_slots(
    slots: Mapping[str, list[str]], name: str, new_name: str
) -> dict[str, list[str]]:
    return {slot: [new_name if n == name else n for n in names] for slot, names in slots.items()}


def _nothing(*_: object) -> None:
    """Do nothing, neither append nor record."""


def _no_types(op: Operator) -> None:
    raise RuntimeError(
        f"the types of '{op.type}' cannot be inferred yet: import graphopt.ir.translate before "
        "appending operators"
    )


@dataclass
class OnAppend:
    """The callbacks of other packages in `Block.append_op`, in call order.

    Importing such a package sets its callback: a program does without packages that it does not
    use.
    """

    instead: Callable[..., Operator | None] = _nothing
    """Append a sequence operator as a layer, which knows the lengths; None for others.

    Takes the block and the arguments of `append_op`. Set by `fluid/sequence_operators.py`.
    """

    infer: Callable[[Operator], None] = _no_types
    """Set the output types by translating the operator. Set by `ir/translate`."""

    after: Callable[[Operator], None] = _nothing
    """Note the sequence lengths of the outputs. Set by `frontend/sequence_notes.py`."""


class Block:
    """Variables by name and operators in order; sub-blocks see their parents' variables.

    `saved` holds declarations of a loaded block that this model lacks, for writing them back.
    """

    saved: Mapping[str, Any] | None = None

    on_append: ClassVar[OnAppend] = OnAppend()

    def __init__(self, program: Program, idx: int, parent_idx: int = -1) -> None:
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.forward_block_idx = -1
        self.backward_block_idx = -1
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []

    @property
    def parent(self) -> Block | None:
        """The enclosing block, None for the global one."""
        return None if self.parent_idx < 0 else self.program.blocks[self.parent_idx]

    def has_var(self, name: str) -> bool:
        """True when this block itself, not a parent, declares the name."""
        return name in self.vars

    def var(self, name: str) -> Variable:
        """Return a variable that this block declares; raise ValueError when it does not."""
        try:
            return self.vars[name]
        except KeyError:
            raise ValueError(f"var {name} not in this block") from None

    def find_var(self, name: str) -> Variable | None:
        """Find the variable that a name refers to in this block; None if undeclared."""
        if name in self.vars:
            return self.vars[name]
        return None if self.parent is None else self.parent.find_var(name)

    _find_var_recursive = find_var

    def _var_recursive(self, name: str) -> Variable:
        found = self.find_var(name)
        if found is None:
            raise ValueError(f"Var {name} is not found recursively")
        return found

    def create_var(
        self, name: str | None = None, shape: Any = None, dtype: Any = None, **flags: Any
    ) -> Variable:
        """Declare a variable, or return the one that already has this name.

        Without a name it gets a unique one. `type` is a number of `VarKind`. Raises ProgramError if
        the variable exists with another shape, dtype, number of levels or persistence.
        """
        if name is None:
            name = unique_name.generate("_generated_var")
        if name in self.vars:
            self.vars[name].check_same(shape=shape, dtype=dtype, **flags)
            return self.vars[name]
        if "type" in flags:
            flags["kind"] = int(flags.pop("type"))
        return self._declare(Variable(self, name, shape, dtype, **flags))

    def _clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """Declare a copy of another block's variable in this block."""
        twin = var.copy_to(self)
        twin.persistable = force_persistable or var.persistable
        return self._declare(twin)

    def _rename_var(self, name: str | bytes, new_name: str | bytes) -> Variable:
        """Rename a variable, here and in the operators of this block."""
        name = name.decode() if isinstance(name, bytes) else name
        new_name = new_name.decode() if isinstance(new_name, bytes) else new_name
        variable = self.var(name)
        undo.note(self._restore, name, variable)
        undo.note_attributes(variable, "name", "saved")
        del self.vars[name]
        variable.name, variable.saved = new_name, None
        self._rename_in_ops(name, new_name)
        return self._declare(variable)

    def _rename_in_ops(self, name: str, new_name: str) -> None:
        for op in self.ops:
            op.rename(name, new_name)

    def create_parameter(
        self,
        name: Any = None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        **options: Any,
    ) -> Parameter:
        """Declare a parameter in the global block; its dimensions must be positive.

        An `initializer` appends its operator to this block. Without a name it gets a unique one;
        then the first argument may be the shape, as in Paddle. `attr` is ignored, as in Paddle.
        """
        options.pop("attr", None)
        if not isinstance(name, str | None):
            name, shape, dtype = None, name, dtype or shape
        name = name or unique_name.generate("_generated_var")
        if shape is None or dtype is None:
            what = "shape" if shape is None else "dtype"
            raise OperandError(f"parameter '{name}' needs a {what}, found None")
        if any(int(dim) <= 0 for dim in shape):
            raise ProgramError(
                f"Expected every dim's size to be larger than 0, but parameter '{name}' got "
                f"shape {list(shape)}"
            )
        owner = self.program.global_block()
        found = owner.vars.get(name)
        if isinstance(found, Parameter):
            if found.shape != tuple(shape):
                raise ProgramError(
                    f"parameter '{name}' exists with shape {list(found.shape)} and cannot be "
                    f"shared with a layer that needs {list(shape)}"
                )
            return found
        parameter = Parameter(owner, name, shape, dtype, **options)
        owner._declare(parameter)
        if initializer is not None:
            initializer(parameter, self)
        return parameter

    def _declare(self, variable: Variable) -> Variable:
        undo.note(self._restore, variable.name, self.vars.get(variable.name))
        self.vars[variable.name] = variable
        self.program.touch()
        return variable

    def _restore(self, name: str, variable: Variable | None) -> None:
        if variable is None:
            self.vars.pop(name, None)
        else:
            self.vars[name] = variable

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        stop_gradient: bool = False,
    ) -> Operator:
        """Append an operator, and infer the shapes and dtypes of its outputs.

        Slots take a Variable, a name, or a list of them; None means absent. With `stop_gradient` no
        gradient flows through the outputs. `OnAppend` lists the callbacks. Raises ProgramError,
        naming the user's line and the operand types, when the operands do not fit.
        """
        with undo.transaction():
            op = self.on_append.instead(self, type, inputs, outputs, attrs)
            if op is None:
                op = self._append_op(type, inputs, outputs, attrs)
            for name in op.output_arg_names if stop_gradient else ():
                variable = self._var_recursive(name)
                undo.note_attributes(variable, "stop_gradient")
                variable.stop_gradient = True
        return op

    def _append_op(
        self, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
    ) -> Operator:
        """Append an operator as `append_op` does, but never as a layer."""
        with undo.transaction():
            op = self._make_op(type, inputs, outputs, attrs)
            self.on_append.infer(op)
            if not self.program.is_fluid:
                _pass_stops_on(op)
            if type in COLLECTIVES:
                self.program.communicates = True
            undo.note(self.ops.pop)
            self.ops.append(op)
            self.program.touch()
            self.on_append.after(op)
        return op

    def _insert_op(
        self, index: int, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
    ) -> Operator:
        """Insert an operator at a position, as `append_op` does at the end."""
        op = self.append_op(type, inputs, outputs, attrs)
        undo.note(self._move_op, index, len(self.ops) - 1)
        self._move_op(-1, index)
        return op

    def _move_op(self, start: int, end: int) -> None:
        self.ops.insert(end, self.ops.pop(start))

    def _prepend_op(
        self, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
    ) -> Operator:
        """Insert an operator before all others, as `append_op` does at the end."""
        return self._insert_op(0, type, inputs, outputs, attrs)

    def _remove_op(self, index: int, sync: bool = True) -> None:
        undo.note(self._put_ops, list(self.ops))
        del self.ops[index]
        self.program.touch()

    def _put_ops(self, ops: list[Operator]) -> None:
        self.ops[:] = ops

    def _make_op(self, type: Any, inputs: Any, outputs: Any, attrs: Any) -> Operator:
        # as in Paddle: NumPy arrays become lists and numbers, and None is dropped
        if not isinstance(type, str):
            raise OperandError(f"the type of an operator is a str, found {type!r:.60}")
        given = cast(Mapping[str, Any], attrs or {})
        plain: dict[str, Any] = {
            name: value.tolist() if hasattr(value, "tolist") else value
            for name, value in given.items()
            if value is not None
        }
        read = {name: value for name, value in plain.items() if isinstance(value, Variable)}
        plain |= {name: variable.name for name, variable in read.items()}
        attributes: dict[str, Any] = {"op_role": self.program.op_role, **plain}
        op = Operator(self, type, _names(inputs), _names(outputs), attributes, caller_location())
        op.attr_kinds.update(dict.fromkeys(read, AttrKind.VAR))
        return op

    def all_parameters(self) -> list[Parameter]:
        """List the parameters of this block in the order of their creation."""
        return [v for v in self.vars.values() if isinstance(v, Parameter)]

    def iter_parameters(self) -> Iterator[Parameter]:
        """Iterate over the parameters of this block."""
        return iter(self.all_parameters())

    def __repr__(self) -> str:
        return self.to_string()

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Format the block, `with_details` of its variables."""
        lines = [f"{{ // block {self.idx}"]
        lines += [f"    {v.to_string(with_details=with_details)}" for v in self.vars.values()]
        lines += [f"    {op!r}" for op in self.ops]
        return "\n".join([*lines, "}"])

    def _to_readable_code(self, skip_op_callstack: bool = True) -> str:
        return repr(self)


def _pass_stops_on(op: Operator) -> None:
    """Stop gradients at the outputs of an operator whose inputs all stop them, as in Paddle 2.6.

    Parameters keep their own flag. Control flow is skipped: the operators in its blocks have
    already propagated their flags.
    """
    if op.type == GRAD_TYPE or "sub_block" in op.attrs or "blocks" in op.attrs:
        return
    find = op.block.find_var
    for name in op.input_arg_names:
        variable = find(name)
        if variable is not None and not variable.stop_gradient:
            return
    for name in op.output_arg_names:
        variable = find(name)
        if variable is None or variable.stop_gradient or isinstance(variable, Parameter):
            continue
        undo.note_attributes(variable, "stop_gradient")
        variable.stop_gradient = True


def _names(slots: Any) -> dict[str, list[str]]:
    """Convert slot values of any accepted form to lists of names."""
    result: dict[str, list[str]] = {}
    if slots and not isinstance(slots, Mapping):
        raise OperandError(f"slots are a dict from their names to Variables, found {slots!r:.60}")
    for slot, value in cast(Mapping[str, Any], slots or {}).items():
        if value is None:
            continue
        items = cast(Iterable[Any], value if isinstance(value, (list, tuple)) else (value,))
        result[slot] = [_name_of(item, slot) for item in items]
    return result


def _name_of(item: Any, slot: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Variable):
        return item.name
    raise OperandError(
        f"the slot '{slot}' takes Variables and their names, found {item!r:.60} of type "
        f"{type(item).__name__}"
    )


_serial = itertools.count()
# Unique over all programs: after an undo, a program may have its old number again.
_edits = itertools.count(1)


class Program(ProgramMethods):
    """A static-graph program (Paddle page: paddle.static.Program).

    `random_seed` is copied into each random operator when the operator is created; new programs
    begin with `seed_of_new`, which `global_seed` sets. `version` changes with every edit, so
    (serial, version) identifies the content. `saved` holds declarations of a loaded program that
    this model lacks (Paddle's version, operator versions), for writing them back. If the program
    `is_fluid`, `x - y` of its variables follows the rules of Paddle 1.8. If it `communicates`, it
    has operators that need the values of all trainers.
    """

    saved: Mapping[str, Any] | None = None
    is_fluid = False
    communicates = False
    seed_of_new: ClassVar[int] = 0

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block(self, 0)]
        self.current_block_idx = 0
        self.random_seed = self.seed_of_new
        self.serial = next(_serial)
        self.version = 0
        self.lr_schedulers: dict[str, Any] = {}  # variable name -> its learning rate schedule
        self.flat_weights: dict[str, tuple[str, ...]] = {}
        """The weights of each recurrent layer, by Paddle's name for all of them concatenated."""
        self.fixed_feeds: tuple[str, ...] | None = None
        """Feeds that compilation needs as constants; () if it needs only all sizes.

        None for a program that is compiled for any sizes.
        """
        self.readers: list[FeedSource] = []  # the loaders that provide batches to a run
        self.op_role = OpRole.FORWARD
        self.runs_as: Callable[[], Any] | None = None  # returns what executors run instead

    @property
    def random_seed(self) -> int:
        """The seed of random operators created from now on; 0 draws from the global generator."""
        return self._random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        given: object = seed
        if not isinstance(given, Integral):
            raise ValueError(
                "Program.random_seed's input seed must be an integer, but received "
                f"{type(given).__name__}"
            )
        self._random_seed = int(given)

    def touch(self) -> None:
        """Record that the content has changed."""
        undo.note_attributes(self, "version")
        self.version = next(_edits)

    def global_block(self) -> Block:
        """Return block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """Return the block with this index."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """Return the block that new operators go to."""
        return self.blocks[self.current_block_idx]

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def global_seed(self, seed: int = 0) -> None:
        """Set `random_seed` of this program and of all programs created from now on.

        Paddle page: paddle.static.Program.
        """
        self.random_seed = Program.seed_of_new = int(seed)

    def _create_block(self, parent_idx: int | None = None) -> Block:
        undo.note_attributes(self, "current_block_idx")
        undo.note(self._drop_blocks, len(self.blocks))
        parent = self.current_block_idx if parent_idx is None else parent_idx
        block = Block(self, len(self.blocks), parent)
        self.blocks.append(block)
        self.current_block_idx = block.idx
        self.touch()
        return block

    def _drop_blocks(self, count: int) -> None:
        del self.blocks[count:]

    def _rollback(self) -> None:
        undo.note_attributes(self, "current_block_idx")
        self.current_block_idx = max(self.current_block().parent_idx, 0)

    def list_vars(self) -> Iterator[Variable]:
        """Iterate over the variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """List the parameters in the order of their creation."""
        return [p for block in self.blocks for p in block.all_parameters()]

    @contextmanager
    def role(self, role: int) -> Generator[None]:
        """Give operators appended inside the block this `op_role`."""
        saved, self.op_role = self.op_role, role
        try:
            yield
        finally:
            self.op_role = saved

    def _optimized_guard(self, param_and_grads: Any) -> AbstractContextManager[None]:
        return self.role(OpRole.OPTIMIZE)

    def _lr_schedule_guard(self, is_with_opt: bool = False) -> AbstractContextManager[None]:
        return self.role(OpRole.LR_SCHEDULE | (OpRole.OPTIMIZE if is_with_opt else 0))

    def clone(self, for_test: bool = False) -> Program:
        """Copy the program; variables keep their names, and so share values through the scope.

        With `for_test` the backward and optimizer operators are left out, with the variables that
        only they use, and `is_test` is set on every operator that has it. As long as no loss is
        differentiated, as in Paddle, gradients are ordinary values, and stay.
        """
        twin = Program()
        twin.random_seed = self.random_seed
        twin.saved = self.saved
        twin.is_fluid = self.is_fluid
        twin.communicates = self.communicates
        twin.readers = list(self.readers)
        twin.blocks = []
        for block in self.blocks:
            copied = Block(twin, block.idx, block.parent_idx)
            copied.forward_block_idx = block.forward_block_idx
            copied.saved = block.saved
            copied.vars = {name: v.copy_to(copied) for name, v in block.vars.items()}
            kept = _without_training(block.ops, trains=self.trains()) if for_test else block.ops
            copied.ops = [op.copy_to(copied) for op in kept]
            twin.blocks.append(copied)
        if for_test:
            _shorten_slots(twin, self)
            _drop_left_out(twin, self)
            _set_test_mode(twin)
        else:
            twin.lr_schedulers = dict(self.lr_schedulers)
        twin.fixed_feeds = self.fixed_feeds
        twin.flat_weights = dict(self.flat_weights)
        return twin

    def trains(self) -> bool:
        """True when a loss is differentiated, an optimizer updates, or a layer has a derivative."""
        roles = OpRole.LOSS | OpRole.OPTIMIZE
        ops = (op for block in self.blocks for op in block.ops)
        return any(op.role & roles or op.type == "pylayer" for op in ops)

    def __str__(self) -> str:
        return "\n".join(repr(block) for block in self.blocks)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Format the program, `with_details` of its variables.

        With `throw_on_error`, raises ProgramError for a tensor without a dtype, which cannot be
        saved.
        """
        if throw_on_error:
            for variable in self.list_vars():
                if variable.kind == VarKind.DENSE_TENSOR and not variable.has_dtype:
                    raise ProgramError(
                        f"to_string(): the variable '{variable.name}' has no dtype; give "
                        "create_var a dtype"
                    )
        return "\n".join(block.to_string(with_details=with_details) for block in self.blocks)

    def _to_readable_code(self, skip_op_callstack: bool = True) -> str:
        return str(self)

    def facts(self) -> dict[str, str]:
        """Summarize the program in words: its operators, blocks, parameters and data variables."""
        parameters = self.all_parameters()
        sizes = [math.prod(p.shape) for p in parameters if p.has_type and -1 not in p.shape]
        data = [v for v in self.global_block().vars.values() if v.is_data and v.has_type]
        found = {"operators": str(sum(len(block.ops) for block in self.blocks))}
        if len(self.blocks) > 1:
            found["blocks"] = str(len(self.blocks))
        found["parameters"] = f"{len(parameters)} of {sum(sizes):,} elements"
        if data:
            shown = ", ".join(f"{v.name} {list(v.shape)} {v.dtype}" for v in data)
            found["data"] = f"[{shown}]"
        return found

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={words}" for name, words in self.facts().items())
        return f"Program({inner})"


def _without_training(ops: Iterable[Operator], *, trains: bool) -> list[Operator]:
    """Drop the operators of the backward pass, the optimizer and its schedule.

    They are found by their roles; in a file without roles, they are gradient operators and the
    operators that depend on them. The gradients of a program that does not train are not a backward
    pass.
    """
    training = OpRole.OPTIMIZE | OpRole.LR_SCHEDULE | (OpRole.BACKWARD if trains else 0)
    kept: list[Operator] = []
    missing: set[str] = set()
    for op in ops:
        has_role = bool(op.role & training)
        if has_role:
            continue
        is_kept = bool(op.role & OpRole.BACKWARD)
        if (is_gradient(op) and not is_kept) or not missing.isdisjoint(op.input_arg_names):
            missing.update(op.output_arg_names)
        else:
            missing.difference_update(op.output_arg_names)
            kept.append(op)
    return kept


def _shorten_slots(twin: Program, program: Program) -> None:
    """Drop names from the slots of branches and loops that their blocks no longer use."""
    for block in reversed(twin.blocks):
        for op in block.ops:
            index = op.attrs.get("sub_block")
            if not isinstance(index, int):
                continue
            before, after = program.blocks[index], twin.blocks[index]
            lost = _names_of(before.ops) - _names_of(after.ops)
            for slots, listed in ((op.inputs, ("Input", "X")), (op.outputs, ("Out",))):
                for slot in listed:
                    if slot in slots:
                        slots[slot] = [name for name in slots[slot] if name not in lost]


def _drop_left_out(twin: Program, program: Program) -> None:
    """Drop the variables of a copy that only operators left out of it use."""
    left_out = _used_names(program) - _used_names(twin)
    for block in twin.blocks:
        block.vars = {name: v for name, v in block.vars.items() if name not in left_out}


def _used_names(program: Program) -> set[str]:
    return {name for block in program.blocks for name in _names_of(block.ops)}


def _names_of(ops: Iterable[Operator]) -> set[str]:
    return {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}


def _set_test_mode(program: Program) -> None:
    """Set `is_test` where it exists and drop gradient variables without an operator."""
    for block in program.blocks:
        for op in block.ops:
            if "is_test" in op.attrs:
                op.attrs["is_test"] = True
        used = {n for op in block.ops for n in (*op.input_arg_names, *op.output_arg_names)}
        block.vars = {
            name: v for name, v in block.vars.items() if name in used or GRAD_SUFFIX not in name
        }


def saved_version(program: Program) -> int:
    """Return the release that wrote a loaded program (2006002 for 2.6.2), 0 when unknown."""
    return (program.saved or {}).get("version", {}).get("version", 0)
