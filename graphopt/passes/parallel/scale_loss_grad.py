"""gradient_scale_strategy: the start value of the gradient of the loss.

CoeffNumDevice makes it 1 / (devices * trainers), so that the sum of the replicas' gradients is
their mean; One leaves 1; Customized makes it a feed named `<loss>@GRAD`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import WeighByRows
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.signature import FEED, main_function, signature_of
from graphopt.ir.dialect.signature_edit import add_feed
from graphopt.ir.dialect.types import UNKNOWN, Tensor, shape_of
from graphopt.passes.engine.numerics import Numerics


@dataclass(frozen=True)
class ScaleLossGrad(ModulePass):
    """Multiply the seed of each parameter derivative; with `feed`, feed it under that name.

    With `weighted` it is also multiplied by this replica's share of all rows.

    A constant may be the seed of several derivatives and have other readers: only the derivatives,
    and fetches of the seed, see the new value.
    """

    name = "scale-loss-grad"
    numerics = Numerics.REASSOCIATING
    across_replicas = True
    changes_signature: ClassVar[bool] = True
    coefficient: float = 1.0
    feed: str = ""
    weighted: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = main_function(op)
        grads = [o for o in function.walk() if isinstance(o, (Grad, Vjp))]
        grads = [grad for grad in grads if _leads_to_parameters(grad)]
        changed = _fetched_gradients(op) | {use for grad in grads for use in _seeds(grad)}
        for seed in dict.fromkeys(o.owner for grad in grads for o in grad.cotangents):
            if not isinstance(seed, (Full, FullLike)) or not seed.attr("value"):
                continue
            old = seed.results[0]
            new = self._feed_seed(function, old.type) if self.feed else self._scale(seed)
            if self.weighted:
                new = _weigh(new, _rows(op))
            new.name_hint = old.name_hint
            old.replace_uses_with_if(new, lambda use: (use.operation, use.index) in changed)
            if old.first_use is None:
                seed.detach()
                seed.erase()

    def _scale(self, seed: PdOp) -> SSAValue:
        attrs = {**seed.attr_values(), "value": self.coefficient * seed.attr("value")}
        made = type(seed).make(*seed.operands, location=seed.location, **attrs)
        assert seed.parent is not None
        seed.parent.insert_op_after(made, seed)
        return made.results[0]

    def _feed_seed(self, function: FuncOp, type_: Attribute) -> SSAValue:
        """Return the argument that feeds the seed; add it if it is missing."""
        block, attrs = function.body.block, function.arg_attrs.data if function.arg_attrs else ()
        for argument, entry in zip(block.args, attrs, strict=True):
            if entry.data.get(FEED) == StringAttr(self.feed) and argument.type == type_:
                return argument
        return add_feed(function, self.feed, cast(Tensor, type_))


def _weigh(seed: SSAValue, rows: SSAValue) -> SSAValue:
    """Multiply the seed by this replica's share of the rows."""
    assert isinstance(seed.owner, Operation) and seed.owner.parent is not None
    made = WeighByRows.make(seed, rows, location=seed.owner.location)
    seed.owner.parent.insert_op_after(made, seed.owner)
    return made.results[0]


def _rows(module: ModuleOp) -> SSAValue:
    """Find a feed that is split by rows; raise UnsupportedError when there is none."""
    block, ports = main_function(module).body.block, signature_of(module).arguments
    for argument, port in zip(block.args, ports, strict=True):
        if port.kind == FEED and shape_of(port.type)[:1] == (UNKNOWN,):
            return argument
    raise UnsupportedError(
        "sample_weighted needs a feed whose number of rows is not fixed (None or -1 in its shape)"
    )


def _leads_to_parameters(grad: Grad | Vjp) -> bool:
    """True when an update reads this derivative's gradients, also through other derivatives."""
    if isinstance(grad, Grad) and grad.attr("parameters"):
        return True
    seen: set[Operation] = set()
    todo: list[Operation] = [grad]
    while todo:
        op = todo.pop()
        for use in (use for result in op.results for use in result.uses):
            user = use.operation
            if isinstance(user, FullLike):
                continue  # reads only the shape
            if isinstance(user, (Grad, Vjp)):
                starts = user.operands[use.index] in user.cotangents
                if not starts or user in seen:
                    continue
                if isinstance(user, Grad) and user.attr("parameters"):
                    return True
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return False


def _seeds(grad: Grad | Vjp) -> list[tuple[Operation, int]]:
    """List the operands of a derivative that are cotangents."""
    first = len(grad.of) + len(grad.wrt) if isinstance(grad, Grad) else len(grad.inputs)
    return [(grad, first + index) for index in range(len(grad.cotangents))]


def _fetched_gradients(module: ModuleOp) -> set[tuple[Operation, int]]:
    """Find the operands by which gradients leave the function."""
    for op in main_function(module).body.block.ops:
        if isinstance(op, ReturnOp):
            ports = enumerate(signature_of(module).results)
            return {(op, index) for index, port in ports if port.name.endswith("@GRAD")}
    return set()
