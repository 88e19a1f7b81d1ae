"""Checks that written files compute the outputs of the model: each format is loaded and run.

XLA compiles them fast rather than well, as they run once.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphopt.models.export.write import Exported
from graphopt.models.formats import PROGRAMS
from graphopt.runtime.executor import Executor
from graphopt.runtime.state.scope import Scope, scope_guard

if TYPE_CHECKING:
    from graphopt.ir.dialect.signature import Port
    from graphopt.ir.formats.model import LoadedModel

Array = np.ndarray[Any, Any]
# Outputs that differ by less than this count as equal for `convert --check`.
RTOL, ATOL = 1e-4, 1e-5


def model_outputs(model: LoadedModel, feed: Mapping[str, Any]) -> list[Array]:
    """Run the model's first step and return its outputs; leave its own state unchanged."""
    scope = Scope()
    for name, array in model.parameters.items():
        scope.var(name).put(np.array(array))
    found = Executor().run(model.program, dict(feed), model.fetch_names, scope=scope)
    return [np.asarray(value) for value in found]


def exported_outputs(
    exported: Exported, model: LoadedModel, feed: Mapping[str, Any]
) -> list[Array] | None:
    """Run the written file and return its outputs; None for formats that cannot run here."""
    if exported.format in PROGRAMS:
        return _program_outputs(exported, model, feed)
    if exported.format == "mlir":
        return module_outputs(exported.path.read_text("utf-8"), model.parameters, feed)
    if exported.format == "onnx":
        function = exported.function
        ports = [] if function is None else function.plan.fetches
        given = {name: _parts(np.asarray(array)) for name, array in feed.items()}
        found = onnx_outputs(exported.path, given)
        return found and [_whole(*pair) for pair in zip(found, ports, strict=True)]
    if exported.format == "pdmodel":
        return _model_again(exported.path, feed)
    if exported.format == "source":
        is_jax = "import jax" in exported.path.read_text("utf-8").splitlines()
        return (call_network if is_jax else run_build)(exported.path, feed)
    return None


def _model_again(path: Path, feed: Mapping[str, Any]) -> list[Array]:
    from graphopt.models.model import import_model

    with scope_guard(Scope()):
        again = import_model(path)
    return again.run({name: feed[name] for name in again.fed_names})


def call_network(path: Path, feed: Mapping[str, Any]) -> list[Array]:
    """Run a script of JAX functions and return its outputs."""
    import jax

    from graphopt.runtime.steps.xla_forms import quickly

    config: Any = jax.config
    before = config.jax_enable_x64
    try:
        script = runpy.run_path(str(path), run_name="checked")
        read = script.get("read_weights", lambda _: dict[str, Any]())
        weights = read(path.with_suffix(".safetensors"))
        network = script["network"]
        if isinstance(network, jax.stages.Wrapped):
            network = jax.jit(network, compiler_options=quickly(None))
        found = network(weights, *(feed[name] for name in script["INPUTS"]))
    finally:
        config.update("jax_enable_x64", before)
    return [np.asarray(value) for value in jax.tree.leaves(found)]


def run_build(path: Path, feed: Mapping[str, Any]) -> list[Array]:
    """Run a script of Paddle functions, and then the model that it saves; return the outputs.

    Raises RuntimeError when the script fails.
    """
    with TemporaryDirectory() as folder:
        prefix = Path(folder) / "model"
        command = [sys.executable, "-m", "graphopt", "run", str(path), str(prefix)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{path} does not run:\n{done.stderr.strip()}")
        return _model_again(prefix, feed)


def _program_outputs(
    exported: Exported, model: LoadedModel, feed: Mapping[str, Any]
) -> list[Array]:
    function = exported.function
    assert function is not None
    arguments = [np.array(model.parameters[port.name]) for port in function.state]
    arguments += [np.asarray(feed[port.name]) for port in function.feeds]
    if function.takes_key:
        arguments.append(np.array([0, 1], np.uint32))
    call = call_artifact if exported.format == "jaxexport" else call_stablehlo
    return call(exported.path, arguments)[len(function.updated) :]


def call_artifact(path: Path, arguments: Sequence[Array]) -> list[Array]:
    """Call a `.jaxexport` file with arrays in its order, and return the results."""
    import jax
    from jax import export

    with jax.enable_x64(True):
        results = export.deserialize(bytearray(path.read_bytes())).call(*arguments)
        return [np.asarray(result) for result in results]


def call_stablehlo(path: Path, arguments: Sequence[Array]) -> list[Array]:
    """Run a StableHLO file, text or bytecode, with XLA on the CPU; return the results."""
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import xla_client

    from graphopt.runtime.steps.xla_forms import quickly

    client: Any = get_backend("cpu")
    content = path.read_bytes()
    module = content if content.startswith(b"ML\xefR") else content.decode("utf-8")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    with jax.enable_x64(True):
        options = xla_client.CompileOptions()
        options.env_option_overrides = list(quickly(None).items())
        loaded = client.compile_and_load(module, devices, options)
        placed = [jax.device_put(array, client.local_devices()[0]) for array in arguments]
        results = loaded.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [np.asarray(result[0]) for result in results]


def onnx_outputs(path: Path, feed: Mapping[str, Any]) -> list[Array] | None:
    """Run an ONNX model with ONNX Runtime on the CPU; None if that is not installed."""
    if find_spec("onnxruntime") is None:
        return None
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {port.name: np.asarray(feed[port.name]) for port in session.get_inputs()}
    return [np.asarray(value) for value in session.run(None, given)]


def _parts(array: Array) -> Array:
    """Split complex numbers into both parts along a last axis, as ONNX models have them."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def _whole(array: Array, port: Port) -> Array:
    return array[..., 0] + 1j * array[..., 1] if port.dtype.is_complex else array


def module_outputs(
    text: str, parameters: Mapping[str, Array], feed: Mapping[str, Any]
) -> list[Array]:
    """Run a `pd` module in its text form and return its outputs."""
    import jax

    from graphopt.ir.dialect.context import parse_text
    from graphopt.lowering.collectives import ALONE
    from graphopt.lowering.plan import Plan
    from graphopt.lowering.replication import replica_function
    from graphopt.runtime.steps.xla_forms import quickly

    module = parse_text(text)
    plan = Plan.of(module)
    values = {**parameters, **feed}
    groups = [
        tuple(np.array(values[port.name]) for port in ports)
        for ports in (plan.updated, plan.read_only, plan.feeds)
    ]
    with jax.enable_x64(True):
        key = np.array([0, 1], np.uint32)
        run = jax.jit(replica_function(module, plan, ALONE), compiler_options=quickly(None))
        fetches, _ = run(*groups, key)
        return [np.asarray(fetch) for fetch in fetches]


def difference(
    found: Sequence[Array], expected: Sequence[Array], rtol: float = RTOL, atol: float = ATOL
) -> tuple[float, bool]:
    """Compute the largest difference of two results, and whether all elements are close.

    Infinite when shapes or dtypes differ; elements that are not finite must be equal.
    """
    largest, close = 0.0, len(found) == len(expected)
    for new, old in zip(found, expected, strict=False):
        if new.shape != old.shape or new.dtype != old.dtype:
            return float("inf"), False
        if not new.size:
            continue
        both = _comparable(new), _comparable(old)
        with np.errstate(invalid="ignore"):
            gaps = np.abs(both[0] - both[1])
        gaps[~np.isfinite(both[0]) | ~np.isfinite(both[1])] = 0
        largest = max(largest, float(gaps.max()))
        close &= bool(np.allclose(*both, rtol=rtol, atol=atol, equal_nan=True))
    return largest, close


def _comparable(array: Array) -> Array:
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    return np.array(array).astype(wide).reshape(-1)
