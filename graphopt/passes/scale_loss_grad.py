"""gradient_scale_strategy: what the gradient of the loss starts from.

CoeffNumDevice makes it 1 / (devices * trainers), so that the sum of the replicas' gradients is
their mean; One leaves 1; Customized turns it into a feed named `<loss>@GRAD`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from graphopt.ir.op import PdOp, encode_attrs
from graphopt.ir.ops.creation import Full, FullLike
from graphopt.ir.ops.grad import Grad
from graphopt.ir.signature import FEED, main_function


@dataclass(frozen=True)
class ScaleLossGrad(ModulePass):
    """Set the seed of each parameter derivative; `customized` makes it a feed named `feed`."""

    name = "scale-loss-grad"
    coefficient: float = 1.0
    feed: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = main_function(op)
        for grad in list(function.walk()):
            if isinstance(grad, Grad) and grad.attr("parameters"):
                for cotangent in list(grad.cotangents):
                    seed = cotangent.owner
                    if isinstance(seed, (Full, FullLike)):
                        self._rewrite(function, seed)

    def _rewrite(self, function: FuncOp, seed: PdOp) -> None:
        if not self.feed:
            value = {"value": self.coefficient * seed.attr("value")}
            seed.properties |= encode_attrs(type(seed), value)
            return
        feed_instead(function, seed, self.feed)


def feed_instead(function: FuncOp, op: Operation, name: str) -> None:
    """Replace an op by a new argument of the function that is fed under `name`."""
    block = function.body.block
    result = op.results[0]
    argument = block.insert_arg(result.type, len(block.args))
    argument.name_hint = result.name_hint
    result.replace_all_uses_with(argument)
    op.detach()
    op.erase()
    types = function.function_type
    function.function_type = FunctionType.from_lists(
        [*types.inputs, argument.type], list(types.outputs)
    )
    attrs = function.arg_attrs.data if function.arg_attrs is not None else ()
    function.arg_attrs = ArrayAttr([*attrs, DictionaryAttr({FEED: StringAttr(name)})])
