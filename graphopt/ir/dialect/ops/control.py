"""Ops with regions, which choose, repeat, walk over a sequence, or belong together.

A region is one block that ends with `pd.yield`. It uses the values around it directly, as MLIR's
`scf` does; only values that change from one iteration to the next are block arguments. So type
rules see the producer of a captured constant, a captured value counts as used for every pass, and
nothing has to be threaded through when a pass adds or removes a use.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect, is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, string
from graphopt.ir.dialect.definition import SEGMENTS, encode_attrs, segments
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.rows import forms_in
from graphopt.ir.dialect.traits import Opaque
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    compatible,
    dtype_of,
    element_count,
    shape_of,
    show,
    tensor,
)


def join(a: Attribute, b: Attribute) -> Tensor | None:
    """Join two types: a dimension that only one of them knows becomes unknown.

    None when the dtypes, the ranks or two known dimensions differ.
    """
    return widen_type(a, b) if compatible(a, b) else None


def widen_type(a: Attribute, b: Attribute) -> Tensor | None:
    """Widen two types to one that covers both: dimensions that differ become unknown.

    None when the dtypes or the ranks differ.
    """
    if dtype_of(a) != dtype_of(b) or len(shape_of(a)) != len(shape_of(b)):
        return None
    pairs = zip(shape_of(a), shape_of(b), strict=True)
    return tensor([x if x == y else UNKNOWN for x, y in pairs], dtype_of(a))


@irdl_op_definition
class Yield(PdOp):
    """The end of a region: the values that it hands to the op around it."""

    name = "pd.yield"
    values = var_operand_def(TENSOR)
    traits = traits_def(IsTerminator(), Pure(), Opaque())

    @staticmethod
    def infer() -> tuple[Tensor, ...]:
        return ()


class RegionOp(PdOp, ABC):
    """An op with regions of one block each. Its results have the types that it declares."""

    REGIONS: ClassVar[tuple[str, ...]] = ("",)
    """Keyword before each region in the text form."""

    traits = traits_def(RecursiveMemoryEffect(), Opaque())
    outs = var_result_def(TENSOR)

    @classmethod
    def make_unchecked(
        cls,
        groups: Sequence[Sequence[SSAValue]],
        types: Sequence[Attribute],
        blocks: Sequence[Block],
        **attrs: object,
    ) -> Self:
        """Build the op from operand groups, result types and blocks, without verifying it."""
        return cls.create(
            operands=[value for group in groups for value in group],
            result_types=list(types),
            properties=encode_attrs(cls, attrs) | segments(cls, [len(g) for g in groups]),
            regions=[Region(block) for block in blocks],
        )

    @classmethod
    def build_with(
        cls,
        groups: Sequence[Sequence[SSAValue]],
        types: Sequence[Attribute],
        blocks: Sequence[Block],
        **attrs: object,
    ) -> Self:
        """Build and verify the op; raise ProgramError when the parts do not fit together."""
        made = cls.make_unchecked(groups, types, blocks, **attrs)
        try:
            made.verify_()
        except VerifyException as error:
            raise ProgramError(str(error)) from None
        return made

    def verify_(self) -> None:
        for region in self.regions:
            if len(region.blocks) != 1 or not isinstance(region.block.last_op, Yield):
                raise VerifyException(
                    f"'{self.name}': each region needs one block that ends with pd.yield"
                )
        self.verify_regions()

    def verify_regions(self) -> None:
        """Raise VerifyException unless region arguments and yields fit operands and results."""

    def yielded_values(self, region: int = 0) -> Sequence[SSAValue]:
        """Return the values that a region yields."""
        last = self.regions[region].block.last_op
        assert last is not None
        return last.operands

    def expect(self, what: str, found: Sequence[Attribute], wanted: Sequence[Attribute]) -> None:
        """Raise VerifyException unless the types agree one by one."""
        if len(found) != len(wanted):
            raise VerifyException(f"'{self.name}': {what}: {len(found)} values for {len(wanted)}")
        for position, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not compatible(a, b):
                raise VerifyException(
                    f"'{self.name}': {what}: value {position} is {show(a)}, expected {show(b)}"
                )

    def expect_flag(self, what: str, type: Attribute) -> None:
        """Raise VerifyException unless the type is one truth value."""
        if dtype_of(type) != "bool" or element_count(shape_of(type)) not in (1, UNKNOWN):
            raise VerifyException(
                f"'{self.name}': {what} must be a bool of one element, found {show(type)}"
            )


@irdl_op_definition
class If(RegionOp):
    """The results of the first region if `condition` holds, else of the second region.
    Paddle: conditional_block, select_input.
    """

    name = "pd.if"
    REGIONS: ClassVar[tuple[str, ...]] = ("", "else ")
    condition = operand_def(TENSOR)
    then = region_def()
    otherwise = region_def()

    @staticmethod
    def infer(condition: Tensor) -> tuple[Tensor, ...]:
        raise ProgramError("the results of pd.if depend on its regions")

    def verify_regions(self) -> None:
        self.expect_flag("the condition", self.condition.type)
        for region in (0, 1):
            if self.regions[region].block.args:
                raise VerifyException("'pd.if': its regions take no arguments")
            found = [value.type for value in self.yielded_values(region)]
            name = "the first region" if region == 0 else "the second region"
            self.expect(f"yielded by {name}", found, self.result_types)


@irdl_op_definition
class While(RegionOp):
    """Repeat the region while a flag is true; it yields the next flag and the next values.
    Paddle: while.

    The region's arguments are the carried values, at first the operands; the results are the last
    ones. `trips` is the number of iterations where it follows from the program: then the loop can
    be differentiated like straight-line code.
    """

    name = "pd.while"
    irdl_options = (SEGMENTS,)
    condition = operand_def(TENSOR)
    carried = var_operand_def(TENSOR)
    trips = integer(None)
    body = region_def()

    @staticmethod
    def infer(condition: Tensor, carried: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return carried

    def verify_regions(self) -> None:
        self.expect_flag("the condition", self.condition.type)
        given = [value.type for value in self.carried]
        self.expect("carried into the region", list(self.body.block.arg_types), given)
        flag_, *values = self.yielded_values() or (self.condition,)
        self.expect_flag("the yielded condition", flag_.type)
        self.expect("yielded", [value.type for value in values], self.result_types)
        self.expect("the results", self.result_types, given)


@irdl_op_definition
class Scan(RegionOp):
    """Walk over sequences along their first axis, passing on memories. Paddle: recurrent.

    The region's arguments are the memories, then one item of each sequence; it yields the next
    memories, then the items of the results, which are stacked along a new first axis. With
    `reverse` it walks from the end.
    """

    name = "pd.scan"
    irdl_options = (SEGMENTS,)
    memories = var_operand_def(TENSOR)
    sequences = var_operand_def(TENSOR)
    reverse = flag(False)
    body = region_def()

    @staticmethod
    def infer(memories: tuple[Tensor, ...], sequences: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        raise ProgramError("the results of pd.scan depend on its region")

    def verify_regions(self) -> None:
        if not self.sequences:
            raise VerifyException("'pd.scan': it needs a sequence, whose length it walks")
        memories = [value.type for value in self.memories]
        items = [item_type(value.type) for value in self.sequences]
        self.expect("the region's arguments", list(self.body.block.arg_types), memories + items)
        yielded = [value.type for value in self.yielded_values()]
        self.expect("the next memories", yielded[: len(memories)], memories)
        stacked = [item_type(type_) for type_ in self.result_types]
        self.expect("the items of the results", yielded[len(memories) :], stacked)


@irdl_op_definition
class Layers(RegionOp):
    """Pass values through the region once for each item along the first axis of the stacks.

    The region's arguments are the carried values, at first the operands, then an item of each
    stack; it yields the next carried values, and the results are the last ones. The random ops of
    layer i draw as ops with the number `rng_id` + i * `rng_stride` do. With `recompute` derivatives
    keep the values carried between layers and compute the rest again.
    """

    name = "pd.layers"
    irdl_options = (SEGMENTS,)
    carried = var_operand_def(TENSOR)
    stacks = var_operand_def(TENSOR)
    rng_stride = integer(0)
    recompute = flag(False)
    body = region_def()

    @staticmethod
    def infer(carried: tuple[Tensor, ...], stacks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not stacks:
            raise ProgramError("pd.layers needs a stack, whose first axis says how many there are")
        return carried

    def verify_regions(self) -> None:
        counts = {shape_of(value.type)[:1] for value in self.stacks}
        if len(counts) != 1 or counts & {(), (UNKNOWN,)}:
            raise VerifyException(
                f"'pd.layers': its stacks need one first axis, found {sorted(counts)}"
            )
        carried = [value.type for value in self.carried]
        items = [item_type(value.type) for value in self.stacks]
        self.expect("the region's arguments", list(self.body.block.arg_types), carried + items)
        self.expect("the next values", [value.type for value in self.yielded_values()], carried)
        self.expect("the results", self.result_types, carried)


@irdl_op_definition
class PyLayer(RegionOp):
    """The results of the first region; the second region computes the derivative.
    Paddle: pylayer.

    The arguments of the second region are the gradients of the results; it yields the gradients of
    `inputs`. No other value that the regions use has a gradient.
    """

    name = "pd.pylayer"
    REGIONS: ClassVar[tuple[str, ...]] = ("", "backward ")
    inputs = var_operand_def(TENSOR)
    forward = region_def()
    backward = region_def()

    @staticmethod
    def infer(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        raise ProgramError("the results of pd.pylayer are what its first region yields")

    def verify_regions(self) -> None:
        if self.forward.block.args:
            raise VerifyException("'pd.pylayer': its first region takes no arguments")
        yielded = [value.type for value in self.yielded_values()]
        self.expect("yielded by the first region", yielded, self.result_types)
        given = list(self.backward.block.arg_types)
        self.expect("the arguments of the second region", given, self.result_types)
        gradients = [value.type for value in self.yielded_values(1)]
        wanted = [value.type for value in self.inputs]
        self.expect("yielded by the second region", gradients, wanted)


@irdl_op_definition
class FusionGroup(RegionOp):
    """Ops that are computed together; the region yields the results. Paddle: fusion_group.

    A derivative keeps the values that the group reads and computes the rest again, except for the
    results of the ops marked `pd.kept`. `inner` is the number of bytes that stay inside of the
    group, `freed` the number of bytes that the derivative need not keep; unknown sizes are
    estimated.
    """

    name = "pd.fusion_group"
    inner = integer(0)
    freed = integer(0)
    body = region_def()

    @staticmethod
    def infer() -> tuple[Tensor, ...]:
        raise ProgramError("the results of pd.fusion_group are what its region yields")

    def verify_regions(self) -> None:
        if self.body.block.args:
            raise VerifyException("'pd.fusion_group': its region takes no arguments")
        for op in self.body.block.ops:
            simple = isinstance(op, RowKernel) or not op.regions
            if not simple or not (isinstance(op, Yield) or is_side_effect_free(op)):
                raise VerifyException(
                    f"'pd.fusion_group': {op.name} has regions or effects; leave it outside"
                )
        self.expect("yielded", [value.type for value in self.yielded_values()], self.result_types)


LANGUAGES = {"triton": 1, "mosaic": 8}
"""The kernel languages, for GPUs and for TPUs, with the fewest rows of a block in each."""


@irdl_op_definition
class RowKernel(RegionOp):
    """Ops that one kernel computes, a block of `rows` rows at a time; they have row forms.

    See `rows.py`. On devices that do not run the `language`, and where sizes do not fit the
    declared types, the ops are computed one by one. The derivative keeps the values that the kernel
    reads. Paddle has no such operator: CINN compiles its groups to kernels.
    """

    name = "pd.row_kernel"
    language = string("triton")
    rows = integer(1)
    body = region_def()

    @staticmethod
    def infer() -> tuple[Tensor, ...]:
        raise ProgramError("the results of pd.row_kernel are what its region yields")

    def verify_regions(self) -> None:
        block = self.body.block
        least, rows = LANGUAGES.get(self.attr("language")), self.attr("rows")
        if least is None:
            names = " and ".join(LANGUAGES)
            raise VerifyException(f"'pd.row_kernel': language should be one of {names}")
        if rows < least or rows.bit_count() != 1:
            raise VerifyException(
                f"'pd.row_kernel': rows should be a power of two from {least} on, found {rows}"
            )
        forms = forms_in([op for op in block.ops if not isinstance(op, Yield)])
        if block.args or forms is None:
            raise VerifyException(
                "'pd.row_kernel': its ops do not compute the rows of tensors of one shape"
            )
        if any(value not in forms or not forms[value].rows for value in self.yielded_values()):
            raise VerifyException("'pd.row_kernel': it yields a value that has no rows")
        self.expect("yielded", [value.type for value in self.yielded_values()], self.result_types)


def item_type(sequence: Attribute) -> Tensor:
    """Return the type of one item along the first axis; raise VerifyException for a 0-D tensor."""
    shape = shape_of(sequence)
    if not shape:
        raise VerifyException(f"a sequence or a stack needs a first axis, found {show(sequence)}")
    return tensor(shape[1:], dtype_of(sequence))


@irdl_op_definition
class Fence(OpaqueOp):
    """Values that are passed on once all of them and all of `after` are computed.

    Paddle has no such operator: its passes put control dependencies between operators.
    """

    name = "pd.fence"
    values = var_operand_def(TENSOR)
    after = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(values: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return values
