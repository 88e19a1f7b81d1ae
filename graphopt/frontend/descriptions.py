"""Programs, blocks, operators and variables in the form of Paddle's C++ descriptors.

As in Paddle, their properties are methods: `op.desc.type()`, `var.desc.shape()`,
`program.desc.block(0)`. A setter changes the program at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Operator, Program, Variable, undo
from graphopt.ir.program.kinds import AttrKind
from graphopt.ir.program.program import saved_version
from graphopt.ir.translate import infer_outputs


def _text(name: str | bytes) -> str:
    """Decode a name; Paddle's descriptors take bytes as well."""
    return name.decode() if isinstance(name, bytes) else name


class _Record:
    """A descriptor of a part of a program; two descriptors of one object are equal."""

    paddle = ""
    """The name of Paddle's class."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Record) and other._held is self._held

    def __hash__(self) -> int:
        return id(self._held)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(n for n in dir(type(self)) if not n.startswith("_") and n != "paddle")
        raise AttributeError(
            f"{self.paddle} has no attribute '{name}' in graphopt; its attributes are {known}",
            name=name,
            obj=self,
        )


class OperatorDesc(_Record):
    """The descriptor of an operator (Paddle's OpDesc)."""

    paddle = "OpDesc"

    def __init__(self, op: Operator | None = None) -> None:
        held = Operator(Program().global_block(), "", {}, {}, {}) if op is None else op
        super().__init__(held)
        self._op = held

    def type(self) -> str:
        """Return the type of the operator."""
        return self._op.type

    def set_type(self, type: str) -> None:
        """Change the type of the operator."""
        self._note_change()
        self._op.type = type

    def input(self, name: str) -> list[str]:
        """Return the variables in an input slot."""
        return self._op.input(name)

    def output(self, name: str) -> list[str]:
        """Return the variables in an output slot."""
        return self._op.output(name)

    def input_names(self) -> list[str]:
        """Return the names of the input slots."""
        return self._op.input_names

    def output_names(self) -> list[str]:
        """Return the names of the output slots."""
        return self._op.output_names

    def inputs(self) -> dict[str, list[str]]:
        """Return the variables in each input slot."""
        return {slot: list(names) for slot, names in self._op.inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        """Return the variables in each output slot."""
        return {slot: list(names) for slot, names in self._op.outputs.items()}

    def input_arg_names(self) -> list[str]:
        """Return the variables that the operator reads."""
        return self._op.input_arg_names

    def output_arg_names(self) -> list[str]:
        """Return the variables that the operator writes."""
        return self._op.output_arg_names

    def set_input(self, name: str, variables: Sequence[str]) -> None:
        """Replace the variables in an input slot."""
        self._note_change()
        self._op.inputs = {**self._op.inputs, name: list(variables)}

    def set_output(self, name: str, variables: Sequence[str]) -> None:
        """Replace the variables in an output slot."""
        self._note_change()
        self._op.outputs = {**self._op.outputs, name: list(variables)}

    def attr_names(self) -> list[str]:
        """Return the names of the attributes."""
        return list(self._op.attr_names)

    def has_attr(self, name: str) -> bool:
        """True if there is an attribute of this name."""
        return self._op.has_attr(name)

    def attr(self, name: str) -> Any:
        """Return the value of an attribute; raise ValueError if there is none."""
        return self._op.attr(name)

    def attr_type(self, name: str) -> int:
        """Return the number of an attribute's type in Paddle's `AttrType`."""
        return self._op.attr_type(name)

    def _rename_input(self, old: str, new: str) -> None:
        self._op._rename_input(old, new)

    def _rename_output(self, old: str, new: str) -> None:
        self._op._rename_output(old, new)

    def _set_attr(self, name: str, value: Any) -> None:
        self._op._set_attr(name, value)

    def set_block_attr(self, name: str, block: BlockDesc) -> None:
        """Set an attribute to a block."""
        self._op._set_attr(name, block.id)
        self._op.attr_kinds[name] = AttrKind.BLOCK

    def _block_attr_id(self, name: str) -> int:
        return int(self._op.attr(name))

    def remove_attr(self, name: str) -> None:
        """Remove an attribute."""
        self._op._remove_attr(name)

    def block(self) -> BlockDesc:
        """Return the descriptor of the operator's block."""
        return BlockDesc(self._op.block)

    def copy_from(self, other: OperatorDesc) -> None:
        """Copy type, slots and attributes of another operator, of any program."""
        self._note_change()
        twin = other._op.copy_to(self._op.block)
        self._op.__dict__.update(twin.__dict__)

    def infer_shape(self, block: BlockDesc | None = None) -> None:
        """Infer the shapes and dtypes of the outputs from the inputs.

        Raises ProgramError when the operands do not fit.
        """
        self._note_change()
        infer_outputs(self._op)

    def infer_var_type(self, block: BlockDesc | None = None) -> None:
        """Do nothing: `infer_shape` infers the types as well."""

    def check_attrs(self) -> None:
        """Do nothing: attributes are checked when the operator is translated."""

    def set_is_target(self, is_target: bool) -> None:
        """Do nothing: pruning gets its targets as arguments."""

    def _note_change(self) -> None:
        undo.note_attributes(self._op, "type", "inputs", "outputs", "attrs", "saved")
        self._op.saved = None
        self._op.block.program.touch()


class VariableDesc(_Record):
    """The descriptor of a variable (Paddle's VarDesc)."""

    paddle = "VarDesc"

    def __init__(self, variable: Variable) -> None:
        super().__init__(variable)
        self._variable = variable

    def name(self) -> str:
        """Return the name."""
        return self._variable.name

    def shape(self) -> list[int]:
        """Return the dimensions, -1 where unknown; [] before they are known."""
        return list(self._variable._shape or ())

    get_shape = shape

    def set_shape(self, shape: Sequence[int]) -> None:
        """Declare other dimensions; dependent values have them from the next run.

        The shapes of other variables stay until `infer_shape` of the operators that write them.
        A variable without a dtype becomes float32, the default of such descriptors.
        """
        self._set("_shape", tuple(int(d) for d in shape))
        if self._variable._dtype is None:
            self._set("dtype", "float32")

    def dtype(self) -> DType:
        """Return the element type."""
        return self._variable.dtype

    def set_dtype(self, dtype: Any) -> None:
        """Declare another element type."""
        self._set("dtype", dtype)

    def type(self) -> int:
        """Return the number of the variable's kind in Paddle's `VarType`."""
        return self._variable.kind

    def set_type(self, type: int) -> None:
        """Declare another kind of variable."""
        self._set("kind", int(type))

    def persistable(self) -> bool:
        """True if the variable persists between runs."""
        return self._variable.persistable

    def set_persistable(self, persistable: bool) -> None:
        """Set whether the variable persists between runs."""
        self._set("persistable", persistable)

    def stop_gradient(self) -> bool:
        """True if no gradient flows through the variable."""
        return self._variable.stop_gradient

    def set_stop_gradient(self, stop_gradient: bool) -> None:
        """Set whether gradients stop at the variable."""
        self._set("stop_gradient", stop_gradient)

    def is_parameter(self) -> bool:
        """True for a parameter."""
        return self._variable.is_parameter

    def lod_level(self) -> int:
        """Return the number of sequence levels of the rows."""
        return self._variable.lod_level

    def need_check_feed(self) -> bool:
        """True if feeds must have the declared shape."""
        return self._variable.need_check_feed and not self._variable.takes_any_shape

    def set_need_check_feed(self, checks: bool) -> None:
        """Set whether feeds of the variable must have its declared shape."""
        undo.note_attributes(self._variable, "takes_any_shape")
        self._variable.takes_any_shape = not checks
        self._variable.block.program.touch()

    def _set(self, name: str, value: Any) -> None:
        own = f"_{name}" if name == "dtype" else name
        undo.note_attributes(self._variable, own, "saved")
        setattr(self._variable, name, value)
        self._variable.saved = None
        self._variable.block.program.touch()


class BlockDesc(_Record):
    """The descriptor of a block (Paddle's BlockDesc). Names are text or bytes."""

    paddle = "BlockDesc"

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._block = block

    @property
    def id(self) -> int:
        """The number of the block."""
        return self._block.idx

    @property
    def parent(self) -> int:
        """The number of the enclosing block, -1 for none."""
        return self._block.parent_idx

    def op_size(self) -> int:
        """Count the operators."""
        return len(self._block.ops)

    def op(self, index: int) -> OperatorDesc:
        """Return the descriptor of an operator; raise IndexError if there is none."""
        return OperatorDesc(self._block.ops[index])

    def all_vars(self) -> list[VariableDesc]:
        """Return the descriptors of the variables that the block declares."""
        return [VariableDesc(variable) for variable in self._block.vars.values()]

    def has_var(self, name: str | bytes) -> bool:
        """True if this block itself declares the name."""
        return self._block.has_var(_text(name))

    def has_var_recursive(self, name: str | bytes) -> bool:
        """True if this block or an enclosing one declares the name."""
        return self._block.find_var(_text(name)) is not None

    def find_var(self, name: str | bytes) -> VariableDesc | None:
        """Return the descriptor of a variable that the block declares; None for none."""
        found = self._block.vars.get(_text(name))
        return None if found is None else VariableDesc(found)

    def find_var_recursive(self, name: str | bytes) -> VariableDesc | None:
        """Return the descriptor of a variable visible in the block; None for none."""
        found = self._block.find_var(_text(name))
        return None if found is None else VariableDesc(found)

    def var(self, name: str | bytes) -> VariableDesc:
        """Return the descriptor of a variable, created if it does not exist."""
        return VariableDesc(self._block.create_var(_text(name)))

    def append_op(self) -> OperatorDesc:
        """Append an empty operator, to be filled by `copy_from` or by setters."""
        return self._insert_op(len(self._block.ops))

    def _prepend_op(self) -> OperatorDesc:
        return self._insert_op(0)

    def _insert_op(self, index: int) -> OperatorDesc:
        made = Operator(self._block, "", {}, {}, {})
        undo.note(self._block.ops.remove, made)
        self._block.ops.insert(index, made)
        self._block.program.touch()
        return OperatorDesc(made)

    def _remove_op(self, start: int, end: int) -> None:
        for _ in range(start, end):
            self._block._remove_op(start)

    def _remove_var(self, name: str | bytes) -> None:
        self._block.vars.pop(_text(name), None)
        self._block.program.touch()

    def _rename_var(self, old: str | bytes, new: str | bytes) -> None:
        self._block._rename_var(_text(old), _text(new))


# the digest of a program, and the program's version at that time
_hashes: WeakKeyDictionary[Program, tuple[int, str]] = WeakKeyDictionary()


class ProgramDesc(_Record):
    """The descriptor of a program (Paddle's ProgramDesc)."""

    paddle = "ProgramDesc"

    def __init__(self, program: Program | None = None) -> None:
        held = Program() if program is None else program
        super().__init__(held)
        self._program = held

    def num_blocks(self) -> int:
        """Count the blocks."""
        return self._program.num_blocks

    def block(self, index: int) -> BlockDesc:
        """Return the descriptor of a block; raise IndexError if there is none."""
        return BlockDesc(self._program.blocks[index])

    def append_block(self, parent: BlockDesc) -> BlockDesc:
        """Append a block inside another one."""
        current = self._program.current_block_idx
        made = self._program._create_block(parent.id)
        self._program.current_block_idx = current
        return BlockDesc(made)

    def serialize_to_string(self, legacy_format: bool = False) -> bytes:
        """Serialize the program in the format of a `__model__` file.

        `legacy_format` has no effect: constants are always written as in Paddle 2.4, which every
        release reads.
        """
        from graphopt.ir.formats.protobuf.program_desc import write_program

        return write_program(self._program)

    def get_feed_target_names(self) -> list[str]:
        """List the variables that the program's feed operators write."""
        ops = [op for op in self._program.global_block().ops if op.type == "feed"]
        return [name for op in ops for name in op.output("Out")]

    def get_fetch_target_names(self) -> list[str]:
        """List the variables that the program's fetch operators read."""
        ops = [op for op in self._program.global_block().ops if op.type == "fetch"]
        return [name for op in ops for name in op.input("X")]

    def flush(self) -> None:
        """Record the current state for `need_update`; setters change the program at once."""
        self.cached_hash_str()

    def need_update(self) -> bool:
        """True when the program has changed since `flush` or `cached_hash_str`."""
        return _hashes.get(self._program, (None, ""))[0] != self._program.version

    def cached_hash_str(self) -> str:
        """Compute the digest of the serialized program, cached until it changes."""
        if self.need_update():
            digest = sha256(self.serialize_to_string()).hexdigest()
            _hashes[self._program] = self._program.version, digest
        return _hashes[self._program][1]

    def _version(self) -> int:
        return saved_version(self._program)
