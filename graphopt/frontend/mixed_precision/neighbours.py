"""The rewrite of the global block by lists alone, as Paddle 1.8 does it, and 2.6 for bfloat16.

A white operator computes in half precision; a black one, or one on no list, in float32. A gray
one follows its producers: float32 if one of them is black, half precision if one is white, else it
stays unchanged. The operators of branches and loops compute in float32.
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
from graphopt.frontend.mixed_precision.lists import (
    AutoMixedPrecisionListsBF16,
    AutoMixedPrecisionListsFluid,
)
from graphopt.ir.dtypes import DType, float16, float32
from graphopt.ir.program import Operator, Program, undo


@dataclass
class ByNeighbours:
    """The rewrite of one program to float16 (1.8) or bfloat16 (2.6)."""

    program: Program
    lists: AutoMixedPrecisionListsFluid | AutoMixedPrecisionListsBF16
    dtype: DType
    white: set[Operator] = field(default_factory=set[Operator])
    black: set[Operator] = field(default_factory=set[Operator])
    fixed: set[str] = field(default_factory=set[str])

    def run(self) -> None:
        """Rewrite the program; raise ProgramError if an operator does not take half precision."""
        self.fixed = fixed_by_blocks(self.program)
        with undo.transaction():
            for op in operators(self.program):
                self._sort(op)
            cast_each(self.program, self._cast)
            infer_again(self.program, self.white | self.black)

    def _keeps(self, op: Operator, slot: str) -> bool:
        if op.type == "batch_norm":
            return slot not in ("X", "Y")
        return self.dtype != float16 and op.type == "layer_norm" and slot not in ("X", "Y")

    def _sort(self, op: Operator) -> None:
        if has_block(op) or op.type in ("create_py_reader", "read"):
            return
        names = {*op.input_arg_names, *op.output_arg_names}
        named = not names.isdisjoint(self.lists.black_varnames or ())
        fixed = op.block.idx > 0 or not self.fixed.isdisjoint(op.output_arg_names)
        if named or fixed or writes_its_input(op, self._keeps) or op.type in self.lists.black_list:
            self.black.add(op)
        elif op.type in self.lists.white_list:
            self.white.add(op)
        elif op.type in self.lists.gray_list:
            self._follow(op)
        else:
            self.black.add(op)

    def _follow(self, op: Operator) -> None:
        ops = self.program.global_block().ops
        found = [last_writer(ops, op, name) for name in op.input_arg_names]
        writers = [writer for writer in found if writer is not None]
        if any(w in self.black or w.type in self.lists.black_list for w in writers):
            self.black.add(op)
        elif any(w in self.white or w.type in self.lists.white_list for w in writers):
            self.white.add(op)

    def _cast(self, op: Operator, position: int) -> int:
        if op in self.black:
            return self._insert(op, position, self.dtype, float32)
        if op not in self.white:
            return 0
        count = self._insert(op, position, float32, self.dtype)
        for slot in op.output_names:
            for name in () if self._keeps(op, slot) else op.output(slot):
                variable = op.block.find_var(name)
                if variable is not None and has_dtype(variable, float32):
                    retype(variable, self.dtype)
                    if "out_dtype" in op.attrs:
                        op._set_attr("out_dtype", self.dtype.code)
        if self.dtype != float16 and op.attrs.get("dtype") == float32.code:
            op._set_attr("dtype", self.dtype.code)
        return count

    def _insert(self, op: Operator, position: int, source: DType, target: DType) -> int:
        half = "fp16" if self.dtype == float16 else "bf16"
        count = insert_casts(op, position, source, target, self._keeps, half=half)
        if op.type == "cast":
            (name,) = op.input("X")
            op._set_attr("in_dtype", op.block._var_recursive(name).dtype.code)
        return count
