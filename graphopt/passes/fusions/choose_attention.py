"""Attention by the kernels of libraries, on GPUs and TPUs: `attention_kernels.py` has their limits.

The pass sets the property `algorithm`, which the lowering obeys; on other devices, where a dumped
program may run, attention is computed without a kernel. Where kernels are measured, the quickest
kernel is chosen, if it is quicker than XLA's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.differentiated import (
    active_values,
    differentiated_ops,
    ops_before,
    path_of,
)
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.measured import KernelTime, Measure, discard
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, choose, with_attrs
from graphopt.passes.fusions.attention_kernels import (
    KERNELS,
    Asked,
    Kernel,
    drops,
    is_causal,
    kernels_of,
    keys_of,
    refusal_by,
    rivals_of,
)


@dataclass(frozen=True)
class ChooseAttention(RewritePass):
    """Choose a library's kernel for attention that the kernel supports."""

    name = "choose-attention"
    numerics = Numerics.REASSOCIATING
    kernel: str = "cudnn"
    platform: str = "gpu"
    measure: Measure | None = None

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, twice = RewriteLog(self.name, self.numerics), set(_differentiated_twice(module))
        trained = differentiated_ops(module)
        for op in list(module.walk()):
            if not isinstance(op, FusedDotProductAttention) or op.attr("algorithm"):
                continue
            if self.measure is None:
                found: str | Reason = Reason("no-kernel", "these devices have no attention kernel")
                for name in kernels_of(self.kernel):
                    if not isinstance(found, str):
                        found = _refusal(KERNELS[name], op, op in twice) or name
                note = ""
            else:
                found, note = self._quickest(op, self.measure, op in twice, op in trained)
            choose(op, found, log, note=note)
        return log.outcomes

    def _quickest(
        self, op: FusedDotProductAttention, measure: Measure, twice: bool, trained: bool
    ) -> tuple[str | Reason, str]:
        """Choose the quickest kernel, with a note for the report, or return why there is none."""
        reason, paying = (
            Reason("no-kernel", "these devices have no attention kernel"),
            dict[str, KernelTime](),
        )
        for name in rivals_of(self.platform, self.kernel):
            refused = _refusal(KERNELS[name].with_measured_limits(), op, twice)
            if refused is not None:
                reason = refused
                continue
            made = with_attrs(op, {"algorithm": name})
            found = measure(made, trained)
            discard(made)
            reason = found.reason(name)
            if found.pays:
                paying[name] = found
        if not paying:
            return reason, ""
        best = min(paying, key=lambda name: paying[name].ratio or 0.0)
        return best, paying[best].note


def _refusal(kernel: Kernel, op: FusedDotProductAttention, twice: bool) -> Reason | None:
    if twice:
        text = f"the kernel of {kernel.name} has a first derivative only"
        return Reason("second-derivative", text)
    asked = Asked(
        op.q.type,
        keys_of(op.k.type, op.attr("transpose_k")),
        op.v.type,
        None if op.mask is None else op.mask.type,
        op.attr("fill"),
        drops(op, "dropout_probability", "dropout_implementation"),
        is_causal(op.mask, op.attr("fill")),
    )
    return refusal_by(kernel, asked)


def _differentiated_twice(module: ModuleOp) -> Iterator[Operation]:
    """Yield the ops before each gradient that differentiates another gradient."""
    for op in module.walk():
        if isinstance(op, Grad):
            region = ops_before(op)
            path = path_of(op, region, active_values(op, region))
            if any(isinstance(inner, Grad) for inner in path):
                yield from region
