"""What the GPUs of this machine can do at most, beside what the workloads reach."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from suite.engines import OURS
from suite.workloads import ON_GPU

COUNT = "import jax; print(sum(d.platform == 'gpu' for d in jax.devices()))"
SIDE, PRODUCTS = 8192, 20


def count() -> int:
    """How many GPUs JAX sees; asked in another process, so that this one holds none."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def limits(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fastest product of matrices in each dtype, and how near each attention comes to it."""
    done = subprocess.run(
        [sys.executable, "-m", "suite.gpu"], capture_output=True, check=True, text=True
    )
    most = json.loads(done.stdout.splitlines()[-1])
    rows = [{"what": f"product of matrices, {name}", "tflops": rate} for name, rate in most.items()]
    for name, found in results.items():
        rate = attention_tflops(name, found)
        if rate is not None:
            share = rate / most[ON_GPU[name].low or "float32"]
            rows.append({"what": found["title"], "tflops": rate, "share": share})
    return rows


def attention_tflops(name: str, found: Mapping[str, Any]) -> float | None:
    """What graphopt reaches in attention: two products forward, and five backward."""
    row = found["engines"][OURS]
    if not name.startswith("gpu-attention") or "step_s" not in row:
        return None
    sizes = ON_GPU[name].sizes["full"]
    product = 2 * sizes.batch * sizes.heads * sizes.length**2 * sizes.width
    return 7 * product / row["step_s"] / 1e12


def products() -> dict[str, float]:
    """TFLOP/s of large products."""
    import jax
    from jax import numpy as jnp

    rates: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        run = jax.jit(lambda a, b: a @ b)
        a = b = jnp.ones((SIDE, SIDE), dtype)
        jax.block_until_ready(run(a, b))
        begun = time.perf_counter()
        for _ in range(PRODUCTS):
            a = run(a, b)
        jax.block_until_ready(a)
        rates[dtype] = PRODUCTS * 2 * SIDE**3 / (time.perf_counter() - begun) / 1e12
    return rates


if __name__ == "__main__":
    print(json.dumps(products()))
