"""The names-level model of a program: what scripts build and what saved models decode to.

A `Program` is a list of `Block`s; a block has `Variable`s by name and `Operator`s in order, which
may overwrite names. The parser (`ir/parse/program.py`) turns all that into SSA values. Paddle
page: paddle.static.Program.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from graphopt.errors import ProgramError
from graphopt.ir import unique_name
from graphopt.ir.location import caller_location
from graphopt.ir.operator import EMPTY as EMPTY
from graphopt.ir.operator import AttrKind as AttrKind
from graphopt.ir.operator import Operator as Operator
from graphopt.ir.operator import OpRole as OpRole
from graphopt.ir.variable import GRAD_SUFFIX as GRAD_SUFFIX
from graphopt.ir.variable import Parameter as Parameter
from graphopt.ir.variable import Variable as Variable
from graphopt.ir.variable import VarKind as VarKind


class Block:
    """Variables by name and operators in order; sub-blocks see their parents' variables.

    `saved` holds what a loaded block declares beyond this model, for writing it back.
    """

    saved: Mapping[str, Any] | None = None

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
        """True when this very block declares the name."""
        return name in self.vars

    def var(self, name: str) -> Variable:
        """The variable that this block declares; ValueError when it declares none."""
        try:
            return self.vars[name]
        except KeyError:
            raise ValueError(f"var {name} not in this block") from None

    def find_var(self, name: str) -> Variable | None:
        """The variable visible under this name here, or None."""
        block: Block | None = self
        while block is not None:
            if name in block.vars:
                return block.vars[name]
            block = block.parent
        return None

    _find_var_recursive = find_var

    def _var_recursive(self, name: str) -> Variable:
        found = self.find_var(name)
        if found is None:
            raise ValueError(f"Var {name} is not found recursively")
        return found

    def create_var(
        self, name: str | None = None, shape: Any = None, dtype: Any = None, **flags: Any
    ) -> Variable:
        """Declare a variable, or return the one that has this name already.

        Without a name it gets one. `type` is a number of `VarKind`.
        """
        if name is None:
            name = unique_name.generate("_generated_var")
        if name in self.vars:
            return self.vars[name]
        if "type" in flags:
            flags["kind"] = int(flags.pop("type"))
        return self._declare(Variable(self, name, shape, dtype, **flags))

    def _clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """A variable of this block like one of another."""
        twin = var.copy_to(self)
        twin.persistable = force_persistable or var.persistable
        return self._declare(twin)

    def _rename_var(self, name: str, new_name: str) -> Variable:
        """Give a variable another name, here and in the operators of this block."""
        variable = self.var(name)
        del self.vars[name]
        variable.name, variable.saved = new_name, None
        for op in self.ops:
            op.rename(name, new_name)
        return self._declare(variable)

    def create_parameter(
        self, name: str, shape: Any, dtype: Any, initializer: Any = None, **options: Any
    ) -> Parameter:
        """Declare a parameter in the global block; its dimensions must be positive.

        With an `initializer` this block fills it.
        """
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
                    f"shared with a layer that wants {list(shape)}"
                )
            return found
        parameter = Parameter(owner, name, shape, dtype, **options)
        owner._declare(parameter)
        if initializer is not None:
            initializer(parameter, self)
        return parameter

    def _declare(self, variable: Variable) -> Variable:
        self.vars[variable.name] = variable
        self.program.touch()
        return variable

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        stop_gradient: bool = False,
    ) -> Operator:
        """Append an operator and give its outputs their shapes and dtypes.

        Slots take a Variable, a name, or a list of them; None means absent. With `stop_gradient`
        no gradient flows through the outputs. Raises ProgramError,
        naming the user's line and the operand types, when the operands do not fit.
        """
        op = self._make_op(type, inputs, outputs, attrs)
        from graphopt.ir.infer import infer_outputs

        infer_outputs(op)
        if stop_gradient:
            for name in op.output_arg_names:
                self._var_recursive(name).stop_gradient = True
        self.ops.append(op)
        self.program.touch()
        return op

    def _insert_op(
        self, index: int, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
    ) -> Operator:
        """As `append_op`, at a position of the operator list."""
        op = self.append_op(type, inputs, outputs, attrs)
        self.ops.insert(index, self.ops.pop())
        return op

    def _prepend_op(
        self, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
    ) -> Operator:
        """As `append_op`, before all others."""
        return self._insert_op(0, type, inputs, outputs, attrs)

    def _remove_op(self, index: int, sync: bool = True) -> None:
        del self.ops[index]
        self.program.touch()

    def _make_op(self, type: str, inputs: Any, outputs: Any, attrs: Any) -> Operator:
        attributes: dict[str, Any] = {"op_role": self.program.op_role, **(attrs or {})}
        return Operator(self, type, _names(inputs), _names(outputs), attributes, caller_location())

    def all_parameters(self) -> list[Parameter]:
        """The parameters of this block in the order of their creation."""
        return [v for v in self.vars.values() if isinstance(v, Parameter)]

    def iter_parameters(self) -> Iterator[Parameter]:
        """The parameters of this block."""
        return iter(self.all_parameters())

    def __repr__(self) -> str:
        lines = [f"{{ // block {self.idx}"]
        lines += [f"    {variable!r}" for variable in self.vars.values()]
        lines += [f"    {op!r}" for op in self.ops]
        return "\n".join([*lines, "}"])

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The block as text; both arguments are accepted for compatibility."""
        return repr(self)


def _names(slots: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Slot values of any accepted form as lists of names."""
    result: dict[str, list[str]] = {}
    for slot, value in (slots or {}).items():
        if value is None:
            continue
        items = cast(Iterable[Any], value if isinstance(value, (list, tuple)) else (value,))
        result[slot] = [item if isinstance(item, str) else item.name for item in items]
    return result


_serial = itertools.count()


class Program:
    """A static-graph program (Paddle page: paddle.static.Program).

    `random_seed` is copied into each random operator when the operator is made. `version` changes
    with every edit, so (serial, version) identifies the content. `saved` holds what a loaded
    program declares beyond this model (Paddle's version, operator versions), for writing it back.
    """

    saved: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block(self, 0)]
        self.current_block_idx = 0
        self.random_seed = 0
        self.serial = next(_serial)
        self.version = 0
        self.lr_schedulers: dict[str, Any] = {}  # variable name -> schedule that sets it
        self.op_role = OpRole.FORWARD

    def touch(self) -> None:
        """Note that the content has changed."""
        self.version += 1

    def global_block(self) -> Block:
        """Block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block with this index."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that new operators go to."""
        return self.blocks[self.current_block_idx]

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    def global_seed(self, seed: int = 0) -> None:
        """Set `random_seed` (Paddle page: paddle.static.Program)."""
        self.random_seed = int(seed)

    def _create_block(self, parent_idx: int | None = None) -> Block:
        parent = self.current_block_idx if parent_idx is None else parent_idx
        block = Block(self, len(self.blocks), parent)
        self.blocks.append(block)
        self.current_block_idx = block.idx
        self.touch()
        return block

    def _rollback(self) -> None:
        self.current_block_idx = max(self.current_block().parent_idx, 0)

    def list_vars(self) -> Iterator[Variable]:
        """Every variable of every block."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """The parameters in the order of their creation."""
        return [p for block in self.blocks for p in block.all_parameters()]

    @contextmanager
    def role(self, role: int) -> Generator[None]:
        """Give operators appended inside the block this `op_role`."""
        saved, self.op_role = self.op_role, role
        try:
            yield
        finally:
            self.op_role = saved

    def clone(self, for_test: bool = False) -> Program:
        """A copy whose variables have the same names (and so share values through the scope).

        With `for_test` the backward and optimizer operators are left out and `is_test` is set on
        every operator that has it.
        """
        twin = Program()
        twin.random_seed = self.random_seed
        twin.saved = self.saved
        twin.blocks = []
        for block in self.blocks:
            copied = Block(twin, block.idx, block.parent_idx)
            copied.forward_block_idx = block.forward_block_idx
            copied.saved = block.saved
            copied.vars = {name: v.copy_to(copied) for name, v in block.vars.items()}
            kept = _without_training(block.ops) if for_test else block.ops
            copied.ops = [op.copy_to(copied) for op in kept]
            twin.blocks.append(copied)
        if for_test:
            _set_test_mode(twin)
        else:
            twin.lr_schedulers = dict(self.lr_schedulers)
        return twin

    def __repr__(self) -> str:
        return "\n".join(repr(block) for block in self.blocks)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The program as text; both arguments are accepted for compatibility."""
        return repr(self)


def _without_training(ops: Iterable[Operator]) -> list[Operator]:
    """The operators without those of the backward pass, the optimizer and its schedule.

    Their roles say so; in a file without roles gradient operators and what depends on them.
    """
    from graphopt.ir.gradients.explicit import is_gradient

    training = OpRole.BACKWARD | OpRole.OPTIMIZE | OpRole.LR_SCHEDULE
    kept: list[Operator] = []
    missing: set[str] = set()
    for op in ops:
        has_role = bool(op.role & training)
        if has_role:
            continue
        if is_gradient(op) or not missing.isdisjoint(op.input_arg_names):
            missing.update(op.output_arg_names)
        else:
            missing.difference_update(op.output_arg_names)
            kept.append(op)
    return kept


def _set_test_mode(program: Program) -> None:
    """Set `is_test` where it exists and drop gradient variables that nothing computes any more."""
    for block in program.blocks:
        for op in block.ops:
            if "is_test" in op.attrs:
                op.attrs["is_test"] = True
        used = {n for op in block.ops for n in (*op.input_arg_names, *op.output_arg_names)}
        block.vars = {
            name: v for name, v in block.vars.items() if name in used or GRAD_SUFFIX not in name
        }


_main_program = Program()
_startup_program = Program()


def default_main_program() -> Program:
    """The program that layers append to."""
    return _main_program


def default_startup_program() -> Program:
    """The program that initialises parameters."""
    return _startup_program


def _check_program(program: object) -> None:
    if program is not None and not isinstance(program, Program):
        raise TypeError(f"program_guard takes Programs, got {type(program).__name__}")


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Generator[None]:
    """Make these the default programs inside the block (paddle.static.program_guard)."""
    global _main_program, _startup_program
    for program in (main_program, startup_program):
        _check_program(program)
    saved = _main_program, _startup_program
    _main_program = main_program
    if startup_program is not None:
        _startup_program = startup_program
    try:
        yield
    finally:
        _main_program, _startup_program = saved
