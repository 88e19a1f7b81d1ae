"""Measurements of GPU and TPU kernels against XLA: results and times of ops, kept on disk.

An op is measured once for its types on a kind of device and a version of jaxlib, when a program
with that op is compiled; the outcomes are kept beside the compiled programs. A fused group is
measured against the same ops without the group. oneDNN's kernels for CPUs are compared within whole
steps instead (`steps/policy.py`): there the ops around a kernel decide.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
from graphopt.errors import FormatError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.ir.dialect.regions import captured_values
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.formats.commit import write_files
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate_block, evaluate_op
from graphopt.passes.engine.measured import KernelTime, discard
from graphopt.runtime.devices.cache_place import is_private, machine_directory
from graphopt.runtime.settings.progress import announce
from graphopt.runtime.state.aside import call_aside

FOLDER = "kernels"
TURNS = 7
"""The number of timed pairs; the median ratio counts."""
AT_ONCE = 2e-3
"""The approximate duration in seconds of the calls that are timed together."""
BATCH = 8
"""The assumed size of an open axis."""
HALF, SINGLE = 2e-2, 2e-3
"""The largest difference relative to the largest value: a float32 product may use TF32."""

Arrays = tuple[Any, ...]
Function = Callable[..., Arrays]


class Probe(NamedTuple):
    """An op with its kernel and without, as functions of the same arrays."""

    kernel: Function
    plain: Function
    operands: Arrays
    made: PdOp | None
    """The clone of the op without its kernel, if one was made."""


class KernelProbes:
    """Measurements of kernels on one device, shared with other processes by a file."""

    def __init__(self, device: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        self._device = device
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, KernelTime] | None = None
        # kernels that raised; another process tries them again
        self._failed: dict[str, KernelTime] = {}

    def __call__(self, op: PdOp, trained: bool) -> KernelTime:
        """Measure an op: its time with the kernel, divided by the time without."""
        key = _key(op, trained)
        with self._lock:
            if self._known is None:
                self._known = self._read()
            found = self._known.get(key) or self._failed.get(key)
            if found is None:
                with announce(lambda: f"measuring the kernel of {op.name.removeprefix('pd.')}"):
                    # Signal handlers cannot raise there; their errors would count as the kernel's.
                    found = call_aside(lambda: self._measure(key, op, trained))
            return found

    def _measure(self, key: str, op: PdOp, trained: bool) -> KernelTime:
        assert self._known is not None
        try:
            with jax.enable_x64(True), jax.default_device(self._device):
                probe = probe_of(op, trained)
                try:
                    self._known[key] = self._compare(probe)
                finally:
                    if probe.made is not None:
                        discard(probe.made)
            self._write()
            return self._known[key]
        except Exception as error:  # XLA and the kernels raise errors of any class
            said = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
            self._failed[key] = KernelTime(None, said)
            return self._failed[key]

    def _compare(self, probe: Probe) -> KernelTime:
        kernel, plain = jax.jit(probe.kernel), jax.jit(probe.plain)
        found = jax.block_until_ready(kernel(*probe.operands))
        wanted = jax.block_until_ready(plain(*probe.operands))
        if reason := difference(found, wanted):
            return KernelTime(None, reason)
        return KernelTime(self._ratio(kernel, plain, probe.operands))

    def _ratio(self, kernel: Function, plain: Function, operands: Arrays) -> float:
        """Time both functions alternately, and return the median ratio."""
        once = self._seconds(plain, operands, 1)
        count = max(1, min(200, round(AT_ONCE / max(once, 1e-9))))
        pairs = [
            (self._seconds(kernel, operands, count), self._seconds(plain, operands, count))
            for _ in range(TURNS)
        ]
        return statistics.median(own / other for own, other in pairs)

    def _seconds(self, function: Function, operands: Arrays, count: int) -> float:
        began = self._clock()
        results: Arrays = ()
        for _ in range(count):
            results = function(*operands)
        jax.block_until_ready(results)
        return self._clock() - began

    # -- the file ----------------------------------------------------------------------------------

    def _file(self) -> Path | None:
        directory = machine_directory()
        if directory is None:
            return None
        kind = re.sub(r"\W+", "-", self._device.device_kind)
        return directory / FOLDER / f"{kind}-{version('jaxlib')}-{_code()}.json"

    def _read(self) -> dict[str, KernelTime]:
        file = self._file()
        with suppress(OSError, ValueError, TypeError):
            if file is not None and is_private(file.parent):
                held: Any = dict(json.loads(file.read_text("utf-8")))
                return {str(key): _outcome(*value) for key, value in held.items()}
        return {}

    def _write(self) -> None:
        """Merge the known outcomes with other processes' outcomes, and write them."""
        file = self._file()
        if file is None or self._known is None:
            return
        self._known = self._read() | self._known
        text = json.dumps(self._known, indent=1, sort_keys=True).encode()
        with suppress(OSError, FormatError):
            file.parent.mkdir(0o700, exist_ok=True)
            write_files({file: [text]}, lasting=False)


def _outcome(ratio: object, refusal: object) -> KernelTime:
    """Decode an outcome of the file; ValueError for a malformed one."""
    is_ratio = isinstance(ratio, (int, float)) and ratio > 0
    if not isinstance(refusal, str) or (is_ratio == bool(refusal)):
        raise ValueError("no outcome")
    return KernelTime(float(ratio) if isinstance(ratio, (int, float)) else None, refusal)


def _key(op: PdOp, trained: bool) -> str:
    """Build the key that decides an op's time: its text, the types that it reads, `trained`."""
    types = [str(value.type) for value in _read_by(op)]
    text = re.sub(r"%[\w.$-]+", "%", str(op))
    held = hashlib.sha256("\n".join([text, *types, str(trained)]).encode()).hexdigest()[:16]
    return f"{op.name.removeprefix('pd.')} {', '.join(types)} {held}"


@functools.cache
def _code() -> str:
    """Hash the code of the kernels and of their measurement."""
    found, root = hashlib.sha256(), Path(__file__).parents[2]
    files = ("attention", "attention_heads", "attention_kernels", "flash", "row_rules", "rows")
    for file in (Path(__file__), *(root / f"lowering/kernels/{name}.py" for name in files)):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


# -- one op ----------------------------------------------------------------------------------------


def _read_by(op: PdOp) -> Sequence[SSAValue]:
    return captured_values(op) if isinstance(op, RegionOp) else tuple(dict.fromkeys(op.operands))


def probe_of(op: PdOp, trained: bool) -> Probe:
    """Build functions of the arrays an op reads: its results and, if `trained`, gradients."""
    read = _read_by(op)
    random = np.random.default_rng(0)
    operands = tuple(jnp.asarray(_numbers(random, value.type)) for value in read)
    if isinstance(op, FusedDotProductAttention) and op.attr("algorithm").endswith("causal"):
        operands = tuple(
            _hiding_later(array) if value is op.mask else array
            for value, array in zip(read, operands, strict=True)
        )
    context = Context(ALONE, jnp.zeros(2, jnp.uint32))

    kernel, made = _as_function(op, read, context), None
    if isinstance(op, RegionOp):
        (region,) = op.regions
        block = region.block

        def plain(*arrays: Any) -> Arrays:
            env: dict[Any, Any] = {v: (a,) for v, a in zip(read, arrays, strict=True)}
            return tuple(lane for (lane,) in evaluate_block(block, env, context))

    else:
        made = _without_kernel(op)
        plain = _as_function(made, read, context)
    if not trained:
        return Probe(kernel, plain, operands, made)
    return Probe(_with_gradients(kernel), _with_gradients(plain), operands, made)


def _without_kernel(op: PdOp) -> PdOp:
    """Clone an op without its kernel, so that XLA computes it; it reads the same values."""
    encode = attr_kinds(type(op))["algorithm"].encode
    made = op.clone()
    made.properties["algorithm"] = encode("")
    return made


def _as_function(op: PdOp, read: Sequence[SSAValue], context: Context) -> Function:
    """Build a function that evaluates an op on the arrays it reads."""

    def results(*arrays: Any) -> Arrays:
        env: dict[Any, Any] = {v: (a,) for v, a in zip(read, arrays, strict=True)}
        evaluate_op(op, env, context)
        return tuple(env[result][0] for result in op.results)

    return results


def _with_gradients(function: Function) -> Function:
    """Extend a function with the gradients of its real operands, for cotangents of ones."""

    def both(*arrays: Any) -> Arrays:
        reals = [at for at, array in enumerate(arrays) if jnp.issubdtype(array.dtype, np.floating)]

        def of_reals(*given: Any) -> Arrays:
            whole = list(arrays)
            for at, array in zip(reals, given, strict=True):
                whole[at] = array
            return function(*whole)

        results, pull = jax.vjp(of_reals, *(arrays[at] for at in reals))
        return *results, *pull(jax.tree.map(jnp.ones_like, results))

    return both


def _numbers(random: np.random.Generator, type: Any) -> Any:
    """Draw values like activations; integers, which may name classes, are 0 or 1."""
    assert isinstance(type, TensorType)
    dtype = dtype_of(type).numpy
    shape = [BATCH if size == UNKNOWN else size for size in shape_of(type)]
    if dtype == np.bool_:
        return random.random(shape) < 0.9
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape, "float32").astype(dtype)


def _hiding_later(mask: Any) -> Any:
    """Build a causal mask like `mask`: a kernel for causal attention may not read it."""
    seen = jnp.broadcast_to(jnp.tri(mask.shape[-1], dtype=bool), mask.shape)
    if mask.dtype == np.bool_:
        return seen
    return jnp.where(seen, jnp.zeros((), mask.dtype), jnp.asarray(-1e4, mask.dtype))


def difference(found: Arrays, wanted: Arrays) -> str:
    """Describe the first result that differs by more than rounding; "" if none does."""
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        most = HALF if one.dtype.itemsize == 2 else SINGLE
        a, b = (np.asarray(each.astype("float32"), "float64") for each in (one, other))
        apart = float(np.max(np.abs(a - b), initial=0.0))
        if not apart <= most * max(float(np.max(np.abs(b), initial=0.0)), 1e-6):
            return f"result {at} differs from XLA's result by {apart:.3g}"
    return ""


@functools.cache
def probes_of(device: Any) -> KernelProbes:
    """Return the probes of a device of this process."""
    return KernelProbes(device)
