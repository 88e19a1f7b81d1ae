"""Parameter updates: values in, updated values out (the parser ties them to the same name).

This file has the base class of all updates and the updates that BuildStrategy fuses; the others are
in `adaptive.py` and `plain.py`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_result_def,
    result_def,
)

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, number, string
from graphopt.ir.dialect.definition import SEGMENTS, definition, operand_names
from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.types import TENSOR, Tensor, compatible, shape_of, show


def check_gradient(param: Tensor, grad: Tensor) -> None:
    """Raise ProgramError unless a gradient has its parameter's type."""
    if not compatible(param, grad):
        raise ProgramError(f"the gradient {show(grad)} does not fit {show(param)}")


def updated_types(param: Tensor, grad: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
    """Infer the types of an updated parameter and its state: their own.

    Raises ProgramError unless the gradient is like the parameter, and each state is like it or a
    scalar.
    """
    check_gradient(param, grad)
    for value in state:
        if not _fits(shape_of(param), shape_of(value)):
            raise ProgramError(f"the state {show(value)} does not fit {show(param)}")
    return (param, *state)


def _fits(param: Sequence[int], state: Sequence[int]) -> bool:
    if all(dim in (1, -1) for dim in state):
        return True
    alike = zip(param, state, strict=False)
    return len(param) == len(state) and all(a == b or -1 in (a, b) for a, b in alike)


class Update(OpaqueOp, ABC):
    """An updated parameter, and updated state, from a gradient and a learning rate.

    A result has the name of the operand that it replaces, followed by `_out`.
    """

    COUNTERS: ClassVar[frozenset[str]] = frozenset({"beta1_pow", "beta2_pow", "rho"})
    """Operands that count steps: their new values depend only on their old ones."""
    PER_ELEMENT: ClassVar[frozenset[str]] = frozenset({"param", "grad"})
    """Operands with one element per element of the parameter; other state may have as many."""

    @classmethod
    def infer_partly(cls, **values: Any) -> tuple[Tensor, ...]:
        """Infer the result types, which do not depend on numbers such as beta1."""
        return call_rule(cls.infer, values)

    def singles(self) -> list[Single]:
        """List the single-parameter updates that this op consists of."""
        groups = zip(operand_names(type(self)), self.operand_groups(), strict=True)
        given = [name for name, group in groups if group]
        return [Single.of(type(self), {name: at for at, name in enumerate(given)}, 0)]

    def counters(self) -> list[tuple[SSAValue, SSAValue]]:
        """List the operands that count steps, each with its new value."""
        return [
            (self.operands[single.operands[name]], self.results[at])
            for single in self.singles()
            for name, at in single.results.items()
            if name in self.COUNTERS
        ]


def update(*state: str, reads: Sequence[str] = ()) -> Callable[[type[Update]], type[Update]]:
    """Declare an update of a parameter by a gradient, a learning rate and named state.

    The operands are `param`, `grad`, `learning_rate`, the state and the operands that it only
    `reads`; the results are the parameter and the state. The decorated class has the name and the
    properties.
    """

    def infer(param: Tensor, grad: Tensor, **values: Tensor) -> tuple[Tensor, ...]:
        return updated_types(param, grad, *(values[name] for name in state))

    def declare(cls: type[Update]) -> type[Update]:
        for name in ("param", "grad", "learning_rate", *state, *reads):
            setattr(cls, name, operand_def(TENSOR))
        for name in ("param", *state):
            setattr(cls, f"{name}_out", result_def(TENSOR))
        cls.infer = staticmethod(infer)
        return irdl_op_definition(cls)

    return declare


@dataclass(frozen=True)
class Single:
    """Positions of one parameter's operands and results in an update, by the operands' names.

    "param" and "grad" are among them.
    """

    operands: Mapping[str, int]
    results: Mapping[str, int]

    @classmethod
    def of(cls, kind: type[Update], operands: Mapping[str, int], first: int) -> Single:
        """Build the positions of an update by `kind` whose results begin at `first`."""
        named = [name.removesuffix("_out") for name, _ in definition(kind).results]
        present = [name for name in named if name in operands]
        return cls(operands, {name: first + at for at, name in enumerate(present)})


@update()
class Sgd(Update):
    """param - lr * grad. Paddle: sgd."""

    name = "pd.sgd"


@irdl_op_definition
class Momentum(Update):
    """v = mu * v + grad, then param - lr * v (or the Nesterov form). Paddle: momentum."""

    name = "pd.momentum"
    param = operand_def(TENSOR)
    grad = operand_def(TENSOR)
    velocity = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    param_out = result_def(TENSOR)
    velocity_out = result_def(TENSOR)
    mu = number()
    use_nesterov = flag(False)
    regularization_method = string("", of=("", "l2_decay"))
    regularization_coeff = number(0.0)

    @staticmethod
    def infer(param: Tensor, grad: Tensor, velocity: Tensor) -> tuple[Tensor, ...]:
        return updated_types(param, grad, velocity)


class AdamBase(Update, ABC):
    """Adaptive moments (Kingma and Ba, 2015); the powers of the betas are state as in Paddle.

    With `uncorrected_epsilon` epsilon is added to the root of the second moment before its bias is
    corrected, as in Paddle 1. With `amsgrad` (Reddi and others, 2018) the largest second moment so
    far, `moment2_max`, stands for the second moment; it is state as well.
    """

    param = operand_def(TENSOR)
    grad = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    moment1 = operand_def(TENSOR)
    moment2 = operand_def(TENSOR)
    beta1_pow = operand_def(TENSOR)
    beta2_pow = operand_def(TENSOR)
    moment2_max = opt_operand_def(TENSOR)
    param_out = result_def(TENSOR)
    moment1_out = result_def(TENSOR)
    moment2_out = result_def(TENSOR)
    beta1_pow_out = result_def(TENSOR)
    beta2_pow_out = result_def(TENSOR)
    moment2_max_out = opt_result_def(TENSOR)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    uncorrected_epsilon = flag(False)
    lazy_mode = flag(False)
    amsgrad = flag(False)
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
        moment2_max: Tensor | None,
        amsgrad: bool,
    ) -> tuple[Tensor, ...]:
        if amsgrad != (moment2_max is not None):
            raise ProgramError("amsgrad goes with the state moment2_max, and only then")
        largest = () if moment2_max is None else (moment2_max,)
        return updated_types(param, grad, moment1, moment2, beta1_pow, beta2_pow, *largest)


@irdl_op_definition
class Adam(AdamBase):
    """Adam. Paddle: adam."""

    name = "pd.adam"


@irdl_op_definition
class Adamw(AdamBase):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019). Paddle: adamw."""

    name = "pd.adamw"
    coeff = number(0.01)
    lr_ratio = number(1.0)
    with_decay = flag(True)
