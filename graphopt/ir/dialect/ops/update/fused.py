"""Several parameter updates of one kind as one op.

Operands come as one list for each slot, in one order of the parameters; all parameters share the
learning rate and the properties. The results are the ones of the first update, then of the second,
and so on. With `stacked` each operand in a list stacks several parameters of one shape (or their
gradients or state) along a new first axis; each is updated by itself.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.irdl import irdl_op_definition, operand_def, var_operand_def, var_result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, number, string
from graphopt.ir.dialect.definition import SEGMENTS, operand_names
from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops.update.basic import (
    Adam,
    AdamBase,
    Adamw,
    Momentum,
    Sgd,
    Single,
    Update,
)
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, shape_of


class FusedUpdate(Update, ABC):
    """Updates of several parameters that share their learning rate and properties."""

    SLOTS: ClassVar[tuple[tuple[str, str], ...]]
    """The list operands, each with the matching operand of the single update."""
    SINGLE: ClassVar[type[Update]]
    """The update of one parameter that this op does for several."""
    outs = var_result_def(TENSOR)
    stacked = flag(False)
    irdl_options = (SEGMENTS,)

    def singles(self) -> list[Single]:
        names, slots = operand_names(type(self)), dict(self.SLOTS)
        places: dict[str, range] = {}
        start = 0
        for name, group in zip(names, self.operand_groups(), strict=True):
            places[name] = range(start, start + len(group))
            start += len(group)
        found: list[Single] = []
        first = 0
        for which in range(len(places["params"])):
            operands = {slots[n]: at[which] for n, at in places.items() if n in slots and at}
            operands["learning_rate"] = places["learning_rate"][0]
            found.append(Single.of(self.SINGLE, operands, first))
            first += len(found[-1].results)
        return found

    @classmethod
    def each(cls, **lists: Sequence[Any]) -> list[dict[str, Any]]:
        """Split the lists into operands by name for each update; an empty list means absent.

        Raises ProgramError when the lists have different lengths.
        """
        count = len(lists["params"])
        lengths = {name: len(values) for name, values in lists.items() if values}
        if not count or set(lengths.values()) != {count}:
            raise ProgramError(f"the lists of operands differ in length: {lengths}")
        return [
            {single: lists[name][i] if lists[name] else None for name, single in cls.SLOTS}
            for i in range(count)
        ]


def _results(
    kind: type[Update], singles: Sequence[dict[str, Any]], stacked: bool, **values: Any
) -> list[Tensor]:
    """Infer the result types of all updates, one after the other."""
    found: list[Tensor] = []
    for operands in singles:
        given, count = _items(operands) if stacked else (operands, 0)
        inferred: Any = call_rule(kind.infer, {**values, **given})
        types = cast("tuple[Tensor, ...]", inferred if isinstance(inferred, tuple) else (inferred,))
        found += (like(t, shape=(count, *shape_of(t))) if stacked else t for t in types)
    return found


def _items(operands: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the types of the items of stacks, and the number of items.

    Raises ProgramError when stacks differ in length.
    """
    counts = {shape_of(type_)[:1] for type_ in operands.values() if type_ is not None}
    if len(counts) != 1 or counts & {(), (UNKNOWN,)}:
        raise ProgramError(f"stacked operands need one first axis, found {sorted(counts)}")
    items = {
        name: None if type_ is None else like(type_, shape=shape_of(type_)[1:])
        for name, type_ in operands.items()
    }
    return items, counts.pop()[0]


@irdl_op_definition
class FusedSgd(FusedUpdate):
    """param - lr * grad, for several parameters."""

    name = "pd.fused_sgd"
    SLOTS: ClassVar[tuple[tuple[str, str], ...]] = (("params", "param"), ("grads", "grad"))
    SINGLE: ClassVar[type[Update]] = Sgd
    params = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)

    @staticmethod
    def infer(
        params: tuple[Tensor, ...], grads: tuple[Tensor, ...], stacked: bool
    ) -> tuple[Tensor, ...]:
        return tuple(_results(Sgd, FusedSgd.each(params=params, grads=grads), stacked))


@irdl_op_definition
class FusedMomentum(FusedUpdate):
    """v = mu * v + grad, then param - lr * v, for several parameters."""

    name = "pd.fused_momentum"
    SLOTS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("params", "param"),
        ("grads", "grad"),
        ("velocities", "velocity"),
    )
    SINGLE: ClassVar[type[Update]] = Momentum
    params = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    velocities = var_operand_def(TENSOR)
    mu = number()
    use_nesterov = flag(False)
    regularization_method = string("", of=("", "l2_decay"))
    regularization_coeff = number(0.0)

    @staticmethod
    def infer(
        params: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
        velocities: tuple[Tensor, ...],
        stacked: bool,
    ) -> tuple[Tensor, ...]:
        singles = FusedMomentum.each(params=params, grads=grads, velocities=velocities)
        return tuple(_results(Momentum, singles, stacked))


@irdl_op_definition
class FusedAdam(FusedUpdate):
    """Adam, or with `use_adamw` AdamW, for several parameters. Paddle: fused_adam_.

    `weight_decay` is AdamW's coeff, 0 for parameters without decay.
    """

    name = "pd.fused_adam_"
    SLOTS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("params", "param"),
        ("grads", "grad"),
        ("moments1", "moment1"),
        ("moments2", "moment2"),
        ("beta1_pows", "beta1_pow"),
        ("beta2_pows", "beta2_pow"),
        ("moments2_max", "moment2_max"),
    )
    SINGLE: ClassVar[type[Update]] = Adam
    params = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    moments1 = var_operand_def(TENSOR)
    moments2 = var_operand_def(TENSOR)
    beta1_pows = var_operand_def(TENSOR)
    beta2_pows = var_operand_def(TENSOR)
    moments2_max = var_operand_def(TENSOR)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    uncorrected_epsilon = flag(False)
    lazy_mode = flag(False)
    amsgrad = flag(False)
    use_adamw = flag(False)
    weight_decay = number(0.0)
    lr_ratio = number(1.0)

    @staticmethod
    def infer(
        params: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
        moments1: tuple[Tensor, ...],
        moments2: tuple[Tensor, ...],
        beta1_pows: tuple[Tensor, ...],
        beta2_pows: tuple[Tensor, ...],
        moments2_max: tuple[Tensor, ...],
        amsgrad: bool,
        stacked: bool,
    ) -> tuple[Tensor, ...]:
        singles = FusedAdam.each(
            params=params,
            grads=grads,
            moments1=moments1,
            moments2=moments2,
            beta1_pows=beta1_pows,
            beta2_pows=beta2_pows,
            moments2_max=moments2_max,
        )
        return tuple(_results(AdamBase, singles, stacked, amsgrad=amsgrad))


# update of one parameter -> op that updates several
FUSED: dict[type[Update], type[FusedUpdate]] = {
    Sgd: FusedSgd,
    Momentum: FusedMomentum,
    Adam: FusedAdam,
    Adamw: FusedAdam,
}
