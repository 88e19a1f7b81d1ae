"""A step compiled with kernels of oneDNN, which `choose-kernel` chooses for the fed sizes."""

from __future__ import annotations

from graphopt.ir.dialect.types import UNKNOWN, shape_of
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import alone
from graphopt.passes.engine.fusion import sweep
from graphopt.passes.target.choose_kernel import BATCH, ChooseKernel
from graphopt.passes.target.fuse_conv_epilogue import FuseConvEpilogue
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.compile.compiling import has_kernel
from graphopt.runtime.compile.kernel_forms import kernels
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.known import Arguments
from graphopt.runtime.disk.summaries import Summarized
from graphopt.runtime.state.arrays import Array
from graphopt.runtime.steps.forms import Form, Lowering
from graphopt.runtime.steps.rivals import Made
from graphopt.runtime.steps.step_calls import FedArrays


def with_kernels(compiled: Compiled, arguments: Arguments, sizes: str) -> Made | None:
    """The step for arguments of these types, compiled here; None where no op has a kernel.

    `sizes` are those of the feeds, in words.
    """
    found = kernels(now=True)
    # a summary has no module
    whole = compiled.whole if isinstance(compiled, Summarized) else compiled
    module = whole.module.clone()
    sweep(module, [(FuseConvEpilogue.name, rule) for rule in FuseConvEpilogue.RULES])
    ChooseKernel(found.forms, found.why, _rows(whole.plan, arguments[2])).rewrite(module)
    count = sum(map(has_kernel, module.walk()))
    if not count:
        return None
    device = device_of(whole.compilation.places[0])
    function = alone(module, whole.plan, device, donate=True).function
    lowering = Lowering(function, arguments, compiled.parts, sizes)
    form = Form(None, lowering, whole.options(), "with kernels", kept=False)
    return Made(form.make(), count)


def _rows(plan: Plan, feeds: FedArrays) -> int:
    """The largest size of these feeds that the program leaves open."""
    found = [BATCH]
    for port, fed in zip(plan.feeds, feeds, strict=True):
        array: Array = fed[0] if isinstance(fed, list) else fed
        sizes = zip(shape_of(port.type), array.shape, strict=False)
        found += [size for declared, size in sizes if declared == UNKNOWN]
    return max(found)
