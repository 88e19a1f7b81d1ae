"""Compilation of a program: parse, optimize, and plan its steps."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from graphopt.errors import ProgramError
from graphopt.ir.dialect.callers import callers
from graphopt.ir.dialect.data_sized import deciding_feeds
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.index_bounds import (
    assert_bounds,
    assert_divisors,
    fed_bounds,
    kept_divisors,
)
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather
from graphopt.ir.dialect.ops.control import Fence, FusionGroup
from graphopt.ir.dialect.ops.conv import Conv2dBase
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import WriteRows
from graphopt.ir.dialect.ops.pool import PoolBase
from graphopt.ir.dialect.signature import (
    check_finite,
    checks_finite,
    compute_in_full,
    signature_of,
)
from graphopt.ir.dialect.types import UNKNOWN, byte_count, shape_of, show
from graphopt.ir.program import LENGTHS
from graphopt.ir.program.location import caller_level
from graphopt.lowering.plan import Plan
from graphopt.passes.engine.costs import flops_of
from graphopt.passes.engine.fusion import Declined
from graphopt.passes.padding.dims import CannotPad
from graphopt.passes.table.context import FLOAT32
from graphopt.passes.table.flags import check_axis, check_supported, refused_flags
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.parts import PARSE, CompilationPart
from graphopt.passes.table.report import Report
from graphopt.passes.target.reassociate_matmul import SIZE_UNKNOWN
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.feeds.blame import check_depth
from graphopt.runtime.settings.flags import (
    checks_all_ids,
    checks_ids,
    checks_nan_inf,
)
from graphopt.runtime.state.prepare import Prepare


def compile_program(compilation: Compilation) -> Compiled:
    """Parse and optimize a program; XLA compiles it once shapes are known.

    Raise UnsupportedError for a strategy flag that nothing can obey, and for branches and loops
    nested deeper than Python can recurse. Raise CannotPad for a program that cannot take the
    requested padding.
    """
    check_depth(compilation.program)
    start = time.perf_counter()
    module, masked = compilation.mask()
    parse = CompilationPart(PARSE, time.perf_counter() - start)
    if compilation.strategy is not None:
        check_supported(compilation.strategy.pass_context().flags)
    _check_memory(module)
    context = compilation.pass_context()
    check_axis(context)
    if context.communicates:
        for flag, text in refused_flags(context).items():
            warnings.warn(f"{flag}: {text}", stacklevel=caller_level())
    fed = [port.name for port in signature_of(module).arguments]
    sizes = [name for name in fed if name.endswith(LENGTHS)]
    bounds = {**fed_bounds(module, sizes), **kept_divisors(module)}
    if checks_all_ids():
        assert_bounds(module)
    asserts = checks_ids() and assert_divisors(module, sizes)
    if masked is not None and (asserts or any(b.divides for each in bounds.values() for b in each)):
        raise CannotPad("integer-division", "integers would be divided by the zeros of spare rows")
    report = optimize(module, context, again=compilation.parse)
    report.parts.append(parse)
    if context.precision == FLOAT32:
        compute_in_full(module)
    if checks_nan_inf():
        check_finite(module)
    place = compilation.places[0]
    is_random = any(draws(op) for op in module.walk())
    has_barriers = any(map(_has_barrier, module.walk()))
    plan = Plan.of(module, compilation.steps, compilation.stacked, apart=True)
    return Compiled(
        compilation,
        module,
        report,
        plan,
        is_random,
        has_barriers,
        callers(module),
        checks_finite(module),
        convolves=_convolves(module),
        wants_sizes=_wants_sizes(module, report),
        deciding=deciding_feeds(module),
        is_kept=not any(map(has_kernel, module.walk())),
        prepare=Prepare.of(module, place.platform, functools.partial(device_of, place)),
        bounds=bounds,
        masked=masked,
        parts=report.parts,
    )


def _wants_sizes(module: ModuleOp, report: Report) -> bool:
    """Return whether the module may compile better with the sizes of its feeds.

    The algorithms of convolutions and pools depend on sizes; other passes decline with
    SIZE_UNKNOWN.
    """
    if any(isinstance(o, Declined) and o.reason.name == SIZE_UNKNOWN for o in report.outcomes):
        return True
    chosen = (op for op in module.walk() if isinstance(op, (Conv2dBase, PoolBase)))
    return any(UNKNOWN in shape_of(op.results[0].type) for op in chosen)


def _convolves(module: ModuleOp) -> bool:
    """Return whether this is inference with at least one convolution per two matrix products."""
    ops = [op for op in module.walk() if isinstance(op, PdOp)]
    convolutions = sum(isinstance(op, Conv2dBase) for op in ops)
    if not convolutions or any(isinstance(op, Grad) for op in ops):
        return False
    products = sum(flops_of(op) > 0 for op in ops) - convolutions
    return 2 * convolutions >= products


def _has_barrier(op: Operation) -> bool:
    """Return whether an op is lowered with a barrier."""
    adds = isinstance(op, Grad) and bool(op.attr("addto"))
    rereads = isinstance(op, Conv2dBase) and op.attr("algorithm") == "shifts"
    gathers = isinstance(op, AllGather) and bool(op.attr("again"))
    holds = isinstance(op, (Fence, FusionGroup, WriteRows)) or segment_of(op) is not None
    return adds or rereads or gathers or holds


def has_kernel(op: Operation) -> bool:
    """Return whether a library computes an op instead of XLA."""
    return isinstance(op, PdOp) and "kernel" in attr_kinds(type(op)) and bool(op.attr("kernel"))


def _check_memory(module: ModuleOp) -> None:
    """Raise ProgramError for a result more than four times the memory of this machine.

    A smaller excess may do: XLA does not store values that it fuses.
    """
    limit = 4 * _memory()
    for op in module.walk():
        for result in op.results:
            if isinstance(result.type, TensorType) and byte_count(result.type) > limit:
                name = result.name_hint or op.name
                raise ProgramError(
                    f"the result '{name}' of {op.name} is {show(result.type)}, which takes "
                    f"{byte_count(result.type)} bytes; this machine has {_memory()} bytes of memory"
                )


@functools.cache
def _memory() -> int:
    """Read this machine's memory in bytes; `sys.maxsize` where the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize
