"""A step compiled with kernels of oneDNN, which passes choose by the sizes of feeds."""

from __future__ import annotations

from dataclasses import replace

import jax
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import filter_sizes
from graphopt.ir.dialect.ops.fused import FusedConv2dAddAct
from graphopt.ir.dialect.retyped import retype_module
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import UNKNOWN, Tensor, dtype_of, shape_of, tensor
from graphopt.lowering.kernels.onednn_blocks import block_of, call_of
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import alone
from graphopt.passes.engine.fusion import Applied, sweep
from graphopt.passes.target.choose_kernel import BATCH, ChooseKernel
from graphopt.passes.target.fuse_conv_epilogue import FuseConvEpilogue
from graphopt.passes.target.pack_filters import PackFilters, packable
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.compile.compiling import has_kernel
from graphopt.runtime.compile.kernel_forms import kernels
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.known import Arguments
from graphopt.runtime.disk.summaries import Summarized
from graphopt.runtime.state.arrays import Array, FedArrays, Step
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.policy import KERNELS
from graphopt.runtime.steps.xla_forms import XlaForms


def with_kernels(
    compiled: Compiled, arguments: Arguments, sizes: str
) -> tuple[Step, Prepare | None, int] | None:
    """Compile a step with kernels; return it, its `@prepare` and the number of kernels.

    Return None where no op has a kernel. `sizes` describes the sizes of the feeds.
    """
    found = kernels(now=True)
    # a summary has no module
    whole = compiled.whole if isinstance(compiled, Summarized) else compiled
    module = whole.module.clone()
    sweep(module, [(FuseConvEpilogue.name, rule) for rule in FuseConvEpilogue.RULES])
    rows, packs = _rows(whole.plan, arguments[2]), bool(whole.plan.prepared)
    ChooseKernel(found.forms, found.why, rows, packs).rewrite(module)
    count = sum(map(has_kernel, module.walk()))
    if not count:
        return None
    device = device_of(whole.compilation.places[0])
    plan, prepare = whole.plan, compiled.prepare
    packed = _pack_filters_for(module, plan, arguments[2]) if plan.prepared else None
    if packed is not None:
        module, prepare = packed, Prepare.of(packed, device.platform, lambda: device)
        plan = replace(plan, prepared=Plan.of(module, apart=True).prepared)
        updated, read_only, *rest = arguments
        apart = read_only[: len(plan.read_only)]
        arguments = (updated, (*apart, *map(_array_type, plan.prepared)), *rest)
    replicated = alone(module, plan, device, donate=True)
    xla = XlaForms(compiled, replicated, arguments, sizes, kept=False)
    return xla.make(KERNELS), prepare, count


def _rows(plan: Plan, feeds: FedArrays) -> int:
    """Find the largest size of these feeds that the program leaves open."""
    found = [BATCH]
    for port, fed in zip(plan.feeds, feeds, strict=True):
        array: Array = fed[0] if isinstance(fed, list) else fed
        sizes = zip(shape_of(port.type), array.shape, strict=False)
        found += [size for declared, size in sizes if declared == UNKNOWN]
    return max(found)


def _pack_filters_for(module: ModuleOp, plan: Plan, feeds: FedArrays) -> ModuleOp | None:
    """Pack the filters of a module for kernels, for feeds of these sizes.

    Return None where no filter is packed, or where an op rejects the sizes.
    """
    if not packable(module):
        return None
    shapes = {
        port.name: tuple(fed.shape)
        for port, fed in zip(plan.feeds, feeds, strict=True)
        if not isinstance(fed, list) and port.name not in plan.stacked
    }

    def type_as_fed(port: Port) -> Tensor:
        shape = shapes.get(port.name) if port.kind == FEED else None
        return port.type if shape is None else tensor(shape, dtype_of(port.type))

    made = retype_module(module, type_as_fed, PdOp.attr_values)
    if made is None:
        return None
    outcomes = PackFilters(tuple(map(_block, packable(made)))).rewrite(made)
    return made if any(isinstance(outcome, Applied) for outcome in outcomes) else None


def _block(op: FusedConv2dAddAct) -> int:
    """Return the block size in which oneDNN reads an op's filter; 0 if sizes are unknown."""
    images, filter = shape_of(op.operands[0].type), shape_of(op.operands[1].type)
    if UNKNOWN in images or UNKNOWN in filter:
        return 0
    outs, own, *kernel = filter_sizes(filter, op.attr("filter_format"))
    geometry = [op.attr(n) for n in ("strides", "paddings", "padding_algorithm", "dilations")]
    added = len(op.operands) - 2
    relu = op.attr("activation") == "relu"
    return block_of(call_of(images, (*kernel, own, outs), tuple(geometry), relu, added))


def _array_type(port: Port) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape_of(port.type), dtype_of(port.type).numpy)
