"""XLA's code for a step on a GPU, compiled without a GPU: graphopt's beside plain JAX's.

    make count-gpu                                            into docs/benchmarks/gpu.{json,md}
    make count-gpu BENCH="--workloads gpu-mlp --size toy --out out/count-gpu"

JAX's plugin for CUDA compiles for a described device, and needs neither a card nor CUDA for it.
Nothing depends on measurements on a card: XLA takes its first choice of algorithm. So kernels,
cuDNN fusions and memory can be counted here; times cannot. ResNet-50 and the small models have
their whole sizes, Transformers two layers of their width.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite import gpu_page
from suite.engines import BASELINE, OURS
from suite.engines.job import Job, load_weights
from suite.workload import Workload
from suite.workloads import ON_GPU

ROOT = Path(__file__).parents[2]
COUNTED = (
    *("gpu-tiny-fc", "gpu-mlp", "gpu-resnet50", "gpu-resnet50-bf16"),
    *("gpu-resnet50-training-bf16", "gpu-transformer-bf16", "gpu-bert-base-bf16", "gpu-gpt-bf16"),
)
PARALLEL = ("gpu-mlp", "gpu-resnet50-training-bf16", "gpu-transformer-bf16")
LAYERS = 2
"""The layers of the Transformer that is counted; further layers are like these."""
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
"""XLA's description of the device (GpuTargetConfigProto in text form)."""
DEVICES = 8
ORDERS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "as it is": ((), {}),
    "XLA's latency hiding": ((), {"xla_gpu_enable_latency_hiding_scheduler": True}),
    "enable_sequential_execution": (("enable_sequential_execution",), {}),
}
"""The strategy flags and XLA options that may set the order of sums."""
TARGET, PRODUCT = re.compile(r'custom_call_target="([^"]+)"'), re.compile("gemm|dot|cublas|cudnn")
ALIAS = re.compile(r"^(parameter|get-tuple-element|bitcast|tuple|constant|after-all)$")
Entry = dict[str, int]


def devices(count: int = 1) -> Sequence[Any]:
    """Describe devices of one host that run nothing; NotImplementedError without the plugin."""
    import jax
    from jax.experimental import topologies

    jax.devices()  # loads the plugins
    described = topologies.get_topology_desc(
        "", "cuda", topology=f"1x{count}x1" if count > 1 else "1x1x1", target_config=H100
    )
    return described.devices


def traced_program(job: Job, place: Any = None, places: Sequence[Any] = ()) -> Any:
    """Trace the step of a workload by graphopt, after the passes for a GPU.

    With several `places` each of them has a batch, and gradients are averaged.
    """
    import jax
    import numpy as np

    import graphopt as paddle
    from graphopt import static
    from graphopt.ir.dialect.types import dtype_of, shape_of
    from graphopt.lowering import replication
    from graphopt.lowering.collectives import ALONE
    from graphopt.lowering.plan import Plan
    from graphopt.passes.table.manager import optimize
    from graphopt.runtime.compile.compilation import Compilation, pass_context_for
    from suite.engines.programs import append_model

    strategy = static.BuildStrategy()
    for flag in job.flags:
        setattr(strategy, flag, True)
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        fetch = append_model(paddle, job).fetch
    main = main if job.workload.training else main.clone(for_test=True)
    made = Compilation(main, tuple(sorted(job.feed)), (fetch.name,), strategy)
    module = made.parse()
    count = max(len(places), 1)
    optimize(module, pass_context_for(strategy, "gpu", replicas=count, data_parallel=count > 1))
    plan = Plan.of(module, apart=count == 1)

    def types(ports: Any) -> Any:
        return tuple(jax.ShapeDtypeStruct(shape_of(p.type), dtype_of(p.type).numpy) for p in ports)

    fed = tuple(np.concatenate([job.feed[port.name]] * count) for port in plan.feeds)
    given = types(plan.updated), types((*plan.read_only, *plan.prepared)), fed, np.zeros(2, "u4")
    if count > 1:
        step = replication.shard_map(module, plan, places, donate=True).function
    else:
        replica = replication.replica_function(module, plan, ALONE)
        step = jax.jit(replica, donate_argnums=0)
    with jax.enable_x64(True):
        return step.trace(*types_at(given, place))


def traced_jax(job: Job, place: Any = None) -> Any:
    """Trace the step of the suite's plain JAX."""
    import jax

    from suite.engines import graphopt_engine, jax_engine
    from suite.layers import plain_jax

    with tempfile.TemporaryDirectory() as folder:
        job = replace(job, weights=Path(folder) / "weights.npz")
        graphopt_engine.start(job)
        arrays, trained = load_weights(job.weights)
    weights, state = list(compress(arrays, trained)), list(compress(arrays, map(not_, trained)))
    feed = {n: a.astype("int32") if a.dtype == "int64" else a for n, a in job.feed.items()}
    kind = job.workload.optimizer
    moments = plain_jax.start(kind.kind, weights) if kind is not None else ()

    def step(held: Any, state: Any, feed: Any) -> Any:
        weights, moments = held

        def loss(weights: Any) -> Any:
            return jax_engine.values(job, weights, state, feed)

        if kind is None:
            return loss(weights)
        found, grads = jax.value_and_grad(loss, has_aux=True)(weights)
        return found, plain_jax.update(kind.kind, kind.rate, weights, grads, moments)

    donated = 0 if job.workload.training else ()
    given = (weights, moments), state, feed
    return jax.jit(step, donate_argnums=donated).trace(*types_at(given, place))


def types_at(given: Any, place: Any) -> Any:
    """Map arrays to their types, with a sharding if there is a place."""
    import jax

    return jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=place), given
    )


TRACED: Mapping[str, Callable[..., Any]] = {OURS: traced_program, BASELINE: traced_jax}


def stablehlo_ops(traced: Any) -> list[str]:
    """List the StableHLO ops for CUDA; a function's ops count at each call."""
    import jax

    with jax.enable_x64(True):
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    found: dict[str, tuple[list[str], list[str]]] = {}
    name = ""
    for line in text.splitlines():
        if begun := re.search(r"func\.func (?:public |private )?@([\w.]+)", line):
            name = begun[1]
            found[name] = [], []
        elif name:
            found[name][0].extend(re.findall(r"= \"?stablehlo\.(\w+)", line))
            found[name][1].extend(re.findall(r" call @([\w.]+)", line))

    def all_of(name: str) -> list[str]:
        ops, called = found[name]
        return [*ops, *(op for inner in called for op in all_of(inner))]

    return all_of("main")


def entry_ops(text: str) -> list[str]:
    """List the ops of the main computation of compiled HLO, with the names of libraries."""
    found: list[str] = []
    for line in text[text.index("\nENTRY") :].splitlines():
        if op := re.match(r"\s+(?:ROOT )?%[\w.-]+ = .*? ([a-z][\w-]*)\(", line):
            target = TARGET.search(line)
            found.append(target[1] if target and op[1] == "custom-call" else op[1])
    return [op for op in found if not ALIAS.match(op)]


def counted(compiled: Any) -> Entry:
    """Count kernels, cuDNN calls, loops that only move or convert, and the bytes of a program."""
    text, memory = compiled.as_text(), compiled.memory_analysis()
    ops = entry_ops(text)
    # XLA names a loop after its ops that are not elementwise, and `wrapped_` one after its only op
    alone = re.findall(r"^\s+(?:ROOT )?%(?:wrapped|loop|input)_(\w+?)_?(?:fusion)?[.\d]* = ",
        text[text.index("\nENTRY") :], re.M)  # fmt: skip
    held = memory.argument_size_in_bytes - memory.alias_size_in_bytes
    return {
        "kernels": len(ops),
        "convolutions": sum("cudnn$conv" in op for op in ops),
        "with epilogue": sum("convBiasActivation" in op for op in ops),
        "transposes": alone.count("transpose") + ops.count("transpose") + ops.count("copy"),
        "converts": alone.count("convert") + ops.count("convert"),
        "bytes": held + memory.output_size_in_bytes + memory.temp_size_in_bytes,
    }


def overlap(text: str) -> Entry:
    """Count the all-reduces in scheduled HLO, their bytes, and the bytes that overlap a product."""
    waiting: dict[str, int] = {}
    beside: set[str] = set()
    found: dict[str, int] = {}
    for line in text[text.index("\nENTRY") :].splitlines():
        made = re.match(r"\s+(?:ROOT )?%([\w.-]+) = (.*?) ([a-z][\w-]*)\(([^)]*)", line)
        if made is None or ALIAS.match(made[3]):
            continue
        name, types, op, operands = made.groups()
        if op == "all-reduce-start":
            waiting[name] = found[name] = byte_count(types)
        elif op == "all-reduce-done":
            waiting.pop(operands.strip().lstrip("%"))
        elif op == "all-reduce":
            found[name] = byte_count(types)
        elif PRODUCT.search(name) or PRODUCT.search("".join(TARGET.findall(line))):
            beside |= waiting.keys()
    return {
        "sums": len(found),
        "sum bytes": sum(found.values()),
        "overlapped bytes": sum(found[name] for name in beside),
    }


def byte_count(types: str) -> int:
    """Sum the bytes of the float arrays in an HLO type or tuple of types."""
    return sum(
        int(bits) // 8 * math.prod(map(int, filter(None, sizes.split(","))))
        for bits, sizes in re.findall(r"f(\d+)\[([\d,]*)\]", types)
    )


def smaller(workload: Workload, size: str) -> Workload:
    """Cut a workload to the number of layers that are counted."""
    sizes = workload.sizes[size]
    if not 0 < getattr(sizes, "layers", 0) > LAYERS:
        return workload
    cut = SimpleNamespace(**{**vars(sizes), "layers": LAYERS})
    return replace(workload, sizes={**workload.sizes, size: cut})


def described(workload: Workload, size: str) -> dict[str, Any]:
    """Describe a workload: its title and its number of layers."""
    title = workload.title if size == "full" else f"{workload.title} ({size} sizes)"
    return {"title": title, "layers": getattr(workload.sizes[size], "layers", 0)}


def count(name: str, size: str, place: Any) -> dict[str, Any]:
    """Count a workload by both engines."""
    import jax

    workload = smaller(ON_GPU[name], size)
    job = Job(workload, size, Path(), "", 1)
    row = described(workload, size)
    for engine, traced in TRACED.items():
        with jax.enable_x64(engine == OURS):
            row[engine] = counted(traced(job, place).lower().compile())
    return row


def count_overlap(name: str, size: str, places: Sequence[Any]) -> dict[str, Any]:
    """Measure the gradient sums that overlap the backward pass, by XLA's ordering options."""
    import jax

    workload = smaller(ON_GPU[name], size)
    row = described(workload, size)
    for title, (flags, options) in ORDERS.items():
        wanted = replace(workload, parallel=False, flags=(*workload.flags, *flags))
        with jax.enable_x64(True):
            lowered = traced_program(Job(wanted, size, Path(), "", 1), places=places).lower()
            row[title] = overlap(lowered.compile(compiler_options=dict(options)).as_text())
    return row


def main() -> None:
    """Count, and write the page with it."""
    parser = argparse.ArgumentParser(prog="python -m suite.for_gpu", description=__doc__)
    parser.add_argument("--workloads", default=",".join(COUNTED))
    parser.add_argument("--parallel", default=",".join(PARALLEL))
    parser.add_argument("--size", default="full", choices=("full", "toy"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    given = parser.parse_args()
    os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}
    import jax

    place = jax.sharding.SingleDeviceSharding(devices()[0])
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "gpu.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    counts = found.setdefault("counts", {})
    found["counted_with"] = f"jax {jax.__version__}"
    for name in filter(None, given.workloads.split(",")):
        counts[name] = count(name, given.size, place)
        print(name, counts[name], file=sys.stderr, flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    overlaps = found.setdefault("overlaps", {})
    for name in filter(None, given.parallel.split(",")):
        overlaps[name] = count_overlap(name, given.size, devices(DEVICES))
        print(name, overlaps[name], file=sys.stderr, flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    if "date" in found:
        gpu_page.write(given.out)


if __name__ == "__main__":
    main()
