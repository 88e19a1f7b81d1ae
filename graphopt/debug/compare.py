"""Runs of two versions of a module on the same numbers, and comparison of all their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.signature import STATE, Port, inputs_of, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.ir.dtypes import DType
from graphopt.models.feeds import equal_lengths
from graphopt.reference.stored import by_variable, stored_inputs

Array = np.ndarray[Any, Any]
# The absolute and relative tolerance by element type: a fused op may round differently.
TOLERANCE: Mapping[str, float] = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-4}


_POSITIVE = ("variance", "pow", "moment2", "moment_0")


def random_inputs(module: ModuleOp, seed: int = 0, unknown: int = 3) -> dict[str, Array]:
    """Draw random feeds and state by name; unknown dimensions get the size `unknown`.

    Variances and optimizers' averages of squares are positive, powers of betas are less than 1,
    integers small and non-negative. Rows are shared equally among their sequences.
    """
    generator = np.random.default_rng(seed)
    found = {port.name: _random(port, generator, unknown) for port in inputs_of(module)}
    return found | equal_lengths({name: array.shape for name, array in found.items()})


def _random(port: Port, generator: np.random.Generator, unknown: int) -> Array:
    shape = tuple(unknown if dim == UNKNOWN else dim for dim in shape_of(port.type))
    dtype = dtype_of(port.type)
    if dtype.is_differentiable:
        values = generator.normal(size=shape)
        if any(part in port.name for part in _POSITIVE):
            values = 0.5 + np.abs(values) / 2
        if "pow" in port.name:
            values = values / (1.0 + values)
        return values.astype(dtype.numpy)
    return generator.integers(0, 2, size=shape).astype(dtype.numpy)


def run_module(
    module: ModuleOp, inputs: Mapping[str, Array], seed: int = 7, *, one_by_one: bool = False
) -> dict[str, Array]:
    """Run a module on one device, without donation; return results by name (`pd.fetch x`).

    Where parameters are cut, as many replicas of the device compute with the pieces. With
    `one_by_one` each step of each op is an XLA program of its own, so that its bits do not depend
    on the ops around it.
    """
    import jax

    from graphopt.lowering.plan import Plan
    from graphopt.lowering.replication import alone, by_op, vmap

    plan, device = Plan.of(module), jax.devices("cpu")[0]
    with jax.enable_x64(True), jax.disable_jit(one_by_one):
        inputs = jax.device_put(
            stored_inputs(module, inputs), device
        )  # on NumPy arrays, NumPy would compute some ops
        whole = functools.partial(alone, donate=False)
        degree = _degree(module)
        if degree > 1:
            replicated = vmap(module, plan, device, 1, donate=False, model=degree)
        else:
            replicated = (by_op if one_by_one else whole)(module, plan, device)
        fetches, written = replicated.function(
            tuple(_flat(port, inputs[port.name]) for port in plan.updated),
            tuple(_flat(port, inputs[port.name]) for port in plan.read_only),
            tuple(inputs[port.name] for port in plan.feeds),
            np.array([seed, 1], np.uint32),
        )
        ports = (*plan.fetches, *plan.written)
        fetches = [each[0] for each in fetches] if replicated.mapped else fetches
        arrays = map(np.array, (*fetches, *written))
        found = {f"{p.kind} {p.name}": _whole(p, a) for p, a in zip(ports, arrays, strict=True)}
    return by_variable(module, found)


def _flat(port: Port, array: Array) -> Array:
    """Flatten state that is the only shard of a replica."""
    return array if port.shard_of is None or port.cut is not None else array.reshape(-1)


def _degree(module: ModuleOp) -> int:
    """Count the pieces that parameters are cut into; 1 where none is."""
    cut = (port for port in signature_of(module).arguments if port.cut is not None)
    sizes = ((port.whole, port.shape, port.cut) for port in cut)
    return next((whole[axis] // shape[axis] for whole, shape, axis in sizes if whole), 1)  # pyright: ignore


def _whole(port: Port, array: Array) -> Array:
    return array if port.shard_of is None else array.reshape(shape_of(port.shard_of))


def interpret_module(
    module: ModuleOp, inputs: Mapping[str, Array], seed: int = 7
) -> dict[str, Array]:
    """Run a module as `run_module`, by the reference interpreter if it has rules for all ops."""
    from graphopt.reference import Unsupported, evaluate

    if any(port.shard_of is not None for port in signature_of(module).arguments):
        return run_module(module, inputs, seed)  # the interpreter supports no shards
    try:
        found = evaluate(module, stored_inputs(module, inputs), seed=seed)
        return by_variable(module, found)
    except Unsupported:
        return run_module(module, inputs, seed)


def assert_same_results(
    before: ModuleOp, after: ModuleOp, seed: int = 0, run: Callable[..., Any] = run_module
) -> None:
    """Check that both modules compute the same numbers.

    Raise AssertionError, naming the result, if they do not. State that only the first module
    returns must be unchanged. The tolerance is the default of the result's element type
    (`TOLERANCE`), scaled by its largest finite value.
    """
    inputs = random_inputs(before, seed)
    wanted, found = run(before, inputs), run(after, inputs)
    kept = {f"{STATE} {name}": array for name, array in inputs.items()}
    found = {name: array for name, array in kept.items() if name in wanted} | found
    assert wanted.keys() == found.keys(), (
        f"the results changed from {list(wanted)} to {list(found)}"
    )
    for name, array in wanted.items():
        assert found[name].shape == array.shape, f"{name}: {array.shape} became {found[name].shape}"
        assert found[name].dtype == array.dtype, f"{name}: {array.dtype} became {found[name].dtype}"
        tolerance = TOLERANCE.get(DType(array.dtype.name), 1e-9)
        wide = np.complex128 if array.dtype.kind == "c" else np.float64
        numbers = np.abs(array.astype(wide))
        scale = float(np.max(numbers, initial=1.0, where=np.isfinite(numbers)))
        np.testing.assert_allclose(
            found[name].astype(wide),
            array.astype(wide),
            rtol=tolerance,
            atol=tolerance * scale,
            err_msg=name,
        )


def assert_same_bits(before: ModuleOp, after: ModuleOp, seed: int = 0) -> None:
    """Check that both modules compute the same bits.

    Raise AssertionError, naming the result, if they do not. Each op is computed separately, on
    ordinary numbers and then on zeros of both signs, infinities, NaN and denormal numbers. All NaNs
    count as equal, and denormal numbers as zero, because XLA's arithmetic flushes them.
    """
    for inputs in (random_inputs(before, seed), special_inputs(before, seed)):
        wanted = run_module(before, inputs, one_by_one=True)
        found = run_module(after, inputs, one_by_one=True)
        for name, array in wanted.items():
            assert _bits(found[name]) == _bits(array), (
                f"{name}: the bits changed from {array} to {found[name]}"
            )


def special_inputs(module: ModuleOp, seed: int = 0) -> dict[str, Array]:
    """Draw random inputs in which some floating-point numbers are hard cases of rounding."""
    generator = np.random.default_rng(seed)
    inputs = random_inputs(module, seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38])
    given = 0
    for array in inputs.values():
        if array.dtype.kind == "f" and array.size:
            # in sequence, so that small arrays together get all special numbers
            places = generator.permutation(array.size)[: max(round(0.3 * array.size), 1)]
            turn = np.arange(given, given + len(places))
            array.reshape(-1)[places] = np.take(special, turn, mode="wrap").astype(array.dtype)
            given += len(places)
    return inputs


def _bits(array: Array) -> tuple[Any, ...]:
    """Return shape, dtype and bits, with one NaN for all and denormal numbers flushed to zero."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
        denormal = np.abs(array) < np.finfo(array.dtype).smallest_normal
        array = np.where(denormal, np.copysign(np.zeros_like(array), array), array)
    return array.shape, array.dtype, array.tobytes()


def check_preserves_meaning(
    module: ModuleOp,
    transform: Callable[[ModuleOp], Any],
    seed: int = 0,
    run: Callable[..., Any] = run_module,
) -> Any:
    """Apply `transform` to a copy of `module`, and check that the copy is valid and equivalent.

    `run` computes both. Returns what `transform` returned; raises AssertionError or
    VerifyException.
    """
    changed = module.clone()
    outcome = transform(changed)
    changed.verify()
    verify_ssa(changed)
    assert_same_results(module, changed, seed, run)
    return outcome
