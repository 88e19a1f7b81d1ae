"""The rewrite of `static.amp`, by level, as Paddle 2.6 does it (cast_model_to_fp16).

O1: white operators compute in half precision, black ones in float32, gray ones as their
producers do, all others in float32. O2: all but a few compute in half precision, with half
parameters. OD: white operators in half precision, all others in float32. The operators of branches
and loops compute in float32 at each level.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphopt.frontend.mixed_precision.casts import (
    cast_each,
    fixed_by_blocks,
    has_block,
    has_dtype,
    infer_again,
    insert_casts,
    last_writer,
    operators,
    retype,
    writes_its_input,
)
from graphopt.frontend.mixed_precision.lists import BLACK, AutoMixedPrecisionLists
from graphopt.ir.dtypes import FLOATING, DType, as_dtype, float32
from graphopt.ir.program import Operator, Program, undo
from graphopt.ir.program.gradient_types import GRAD_TYPE

LEVELS = ("O0", "O1", "O2", "OD")
GUARD = "__use_fp16__"
_CODES = {as_dtype(name).code for name in FLOATING}
_COMPUTED = ("float32", "float16", "bfloat16")
# the half-precision slots of operators whose other slots stay float32
_HALF_INPUTS = {
    **dict.fromkeys(("batch_norm", "layer_norm", "instance_norm"), ("X",)),
    "fused_bn_add_activation": ("X", "Z"),
}
_HALF_OUTPUTS = dict.fromkeys(("batch_norm", "fused_bn_add_activation", "layer_norm"), ("Y",))


def keeps_input(op: Operator, slot: str) -> bool:
    """True for an input slot that keeps float32, such as the statistics of a normalization."""
    return op.type in _HALF_INPUTS and slot not in _HALF_INPUTS[op.type]


def _keeps_output(op: Operator, slot: str) -> bool:
    return op.type in _HALF_OUTPUTS and slot not in _HALF_OUTPUTS[op.type]


@dataclass
class Cast:
    """The rewrite of one program; `guarded` takes only the operators inside `fp16_guard`.

    With `promote` an operator on no list computes in float32 if one of its inputs is float32.
    """

    program: Program
    lists: AutoMixedPrecisionLists
    dtype: DType
    level: str
    guarded: bool = False
    promote: bool = False
    half: set[Operator] = field(default_factory=set[Operator])
    full: set[Operator] = field(default_factory=set[Operator])

    def __post_init__(self) -> None:
        self.black = self.lists.black_list
        if self.level == "O2":
            self.black = self.black - BLACK
        if self.level == "OD":
            self.black = self.lists.all_list - self.lists.white_list
        self.fixed = fixed_by_blocks(self.program)
        self.parameters = {p.name for p in self.program.all_parameters()}

    def run(self) -> set[str]:
        """Rewrite the program; return the names of the parameters in half precision.

        Raises ProgramError where an operator does not take half precision: its type belongs to
        `custom_black_list`.
        """
        wanted: set[str] = set()
        with undo.transaction():
            kept = self._retype_parameters()
            for op in operators(self.program):
                if self._takes_part(op):
                    wanted |= self._sort(op)
            cast_each(self.program, self._cast)
            infer_again(self.program, self.half | self.full)
        return wanted - kept

    # -- the precision of operators ---------------------------------------------------------------

    def _retype_parameters(self) -> set[str]:
        """Declare parameters as half at O2; return the inputs that keep float32."""
        kept: set[str] = set()
        if self.level != "O2":
            return kept
        kept |= self.fixed
        for op in operators(self.program):
            if op.type not in self.black:
                whole = self._is_excluded(op)
                slots = (s for s in op.input_names if whole or keeps_input(op, s))
                kept.update(name for slot in slots for name in op.input(slot))
        for parameter in self.program.all_parameters():
            if parameter.name not in kept:
                retype(parameter, self.dtype)
        return kept

    def _is_excluded(self, op: Operator) -> bool:
        """True for operators without a half form, of learning rates, and outside the guard.

        Also true for the operators of branches and loops, and for operators that overwrite an
        input. `select_input` and `select_output` get no casts: the branch that they read from may
        not have run.
        """
        names = [*op.input_arg_names, *op.output_arg_names]
        if op.type in self.lists.unsupported_list or any("learning_rate" in n for n in names):
            return True
        if op.type in ("select_input", "select_output"):
            return True
        if op.block.idx > 0 or not self.fixed.isdisjoint(op.output_arg_names):
            return True
        if writes_its_input(op, keeps_input):
            return True
        return self.guarded and GUARD not in op.attr("op_namescope")

    def _takes_part(self, op: Operator) -> bool:
        """False for operators without float inputs, and with an explicit result dtype."""
        if has_block(op):
            return False
        names = op.input_arg_names
        found = [op.block.find_var(name) for name in names]
        if names and not any(v is None or has_dtype(v, *_COMPUTED) for v in found):
            return False
        if op.type in ("create_py_reader", "read"):
            return False
        says = any(op.attrs.get(name) in _CODES for name in ("out_dtype", "dtype"))
        return op.type == "set_value" or not says or "in_dtype" in op.attrs

    def _sort(self, op: Operator) -> set[str]:
        """Decide the dtype an operator computes in; return the names it reads in half precision."""
        names = {*op.input_arg_names, *op.output_arg_names}
        named = not names.isdisjoint(self.lists.black_varnames or ())
        if self._is_excluded(op) or named or op.type in self.black:
            self._compute(op, float32)
            shared = op.type in self.black and not named
            return self.parameters.intersection(op.input_arg_names) if shared else set()
        if op.type in self.lists.white_list:
            return self._compute(op, self.dtype)
        if op.type == "cast":
            self._keep_cast(op)
            return set()
        if op.type == GRAD_TYPE:
            self._compute(op, self.dtype if self.level == "O2" else float32)
            return set()
        wanted = self._widest_dtype(op) if self.promote else self._dtype_by_lists(op)
        read = self._compute(op, wanted)
        return read if wanted == self.dtype else set()

    def _compute(self, op: Operator, dtype: DType) -> set[str]:
        """Record that an operator computes in this dtype; return its float inputs."""
        (self.full if dtype == float32 else self.half).add(op)
        find, floats = op.block.find_var, tuple(FLOATING)
        for slot in op.output_names:
            for name in () if _keeps_output(op, slot) else op.output(slot):
                variable = find(name)
                if variable is not None and has_dtype(variable, *floats):
                    retype(variable, dtype)
        slots = (slot for slot in op.input_names if not keeps_input(op, slot))
        return {n for slot in slots for n in op.input(slot) if has_dtype(find(n), *floats)}

    def _keep_cast(self, op: Operator) -> None:
        """Update a cast of the script to its operand's dtype; the result keeps its dtype."""
        source, made = (op.block.find_var(n) for n in (*op.input("X"), *op.output("Out")))
        if source is not None and made is not None:
            op._set_attr("in_dtype", source.dtype.code)
            retype(made, as_dtype(op.attr("out_dtype")))

    def _widest_dtype(self, op: Operator) -> DType:
        slots = (slot for slot in op.input_names if not keeps_input(op, slot))
        names = [name for slot in slots for name in op.input(slot)]
        wide = any(has_dtype(op.block.find_var(name), float32) for name in names)
        return float32 if wide else self.dtype

    def _dtype_by_lists(self, op: Operator) -> DType:
        if self.level == "O2":
            return self.dtype
        if op.type not in self.lists.gray_list:
            return float32
        found = self.dtype
        # as in Paddle, the last input decides, in the order of the slots' names
        for name in (name for slot in sorted(op.input_names) for name in op.input(slot)):
            writer = self._writer(op, name)
            if writer is None:
                continue
            if writer in self.full or writer.type in self.black:
                found = float32
            elif writer in self.half or writer.type in self.lists.white_list:
                found = self.dtype
        return found

    def _writer(self, op: Operator, name: str) -> Operator | None:
        variable = op.block.find_var(name)
        writer = None if variable is None else variable.op
        return last_writer(op.block.ops, op, name) if writer is op else writer

    # -- casts ---------------------------------------------------------------------------------

    def _cast(self, op: Operator, position: int) -> int:
        """Insert the casts that an operator needs; return their number."""
        if op not in self.half and op not in self.full:
            return 0
        source, target = (float32, self.dtype) if op in self.half else (self.dtype, float32)
        count = insert_casts(op, position, source, target, keeps_input)
        for name in ("in_dtype", "out_dtype", "dtype"):
            if op.attrs.get(name) in _CODES:
                op._set_attr(name, target.code)
        return count
