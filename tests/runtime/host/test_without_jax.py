"""First results come before JAX is imported, each in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "data" / "models" / "infer_lenet"

RUNS = """
import sys, time
import numpy as np
from graphopt import inference
from graphopt.runtime.steps import policy

def values(predictor):
    model = predictor._model
    return [model.scope.find_var(p.name).value for p in model.program.all_parameters()]

folder = sys.argv[1]
given = np.load(f"{folder}/inputs.npz")
predictor = inference.create_predictor(
    inference.Config(f"{folder}/model.pdmodel", f"{folder}/model.pdiparams")
)
feed = [given[name] for name in predictor.get_input_names()]
before = values(predictor)
first = predictor.run(feed)
assert "jax" not in sys.modules, "a first result needs no JAX"
assert all(a is b for a, b in zip(before, values(predictor))), "a parameter was copied"

policy.PATIENCE = 0.0  # the next form is compiled when its sizes come again
feed = [array[:1] for array in feed]
while not any(tier.startswith("full") for tier in predictor._executor.stats["tiers"]):
    found = predictor.run(feed)
    time.sleep(0.01)
found = predictor.run(feed)
import jax
assert not jax.config.values["jax_cpu_enable_async_dispatch"], "JAX was imported as a caller would"
for a, b in zip(first, found):
    np.testing.assert_allclose(a[:1], b, rtol=1e-4, atol=1e-5)
    assert isinstance(a, np.ndarray) and a.flags.writeable and a.flags.owndata
print(predictor._executor.stats["tiers"])
"""

STARTS = """
import sys
import numpy as np
import graphopt as paddle
from graphopt import static

main = static.default_main_program()
hidden = static.data("x", [-1, 8])
for made in (None, paddle.nn.initializer.Normal(), paddle.nn.initializer.TruncatedNormal()):
    hidden = static.nn.fc(hidden, 80, weight_attr=made)
paddle.optimizer.Adam(1e-3).minimize(paddle.mean(hidden))
start, scope = static.default_startup_program(), static.global_scope()

def states(tier):
    paddle.seed(3)
    paddle.set_flags({"FLAGS_graphopt_tier": tier})
    executor = static.Executor(paddle.CPUPlace())
    executor.run(start)
    print(executor.stats["tiers"])
    return {v.name: np.array(scope.find_var(v.name).value) for v in main.list_vars()
            if v.persistable}

found = states("auto")
assert "jax" not in sys.modules, "a startup program needs no JAX"
for name, expected in states("full").items():
    np.testing.assert_allclose(found[name], expected, 1e-6, 1e-7, err_msg=name)
assert "jax" in sys.modules and len(found) > 12
executor = static.Executor(paddle.CPUPlace())
before = found["fc_0.w_0"]
(after,) = executor.run(main, {"x": np.ones((2, 8), "float32")}, ["fc_0.w_0"])
assert 0 < abs(after - before).max() < 2e-3
"""

DRAWS = """
import graphopt as paddle
from graphopt import static

y = paddle.mean(paddle.tanh(paddle.matmul(paddle.ones([4, 8]), paddle.randn([8, 8])))) + 1.0
z = paddle.exp(y) * 2.0 - paddle.sqrt(y) / 3.0
executor = static.Executor(paddle.CPUPlace())
executor.run(fetch_list=[z])
print(executor.stats["tiers"])
"""


FILTERS = """
import sys
import numpy as np
import graphopt as paddle
from graphopt import nn, static
from graphopt.nn import functional as F

image = static.data("image", [None, 3, 12, 12])
hidden = F.relu(nn.Conv2D(3, 16, 3, stride=2, padding=1)(image))
hidden = F.relu(nn.Conv2D(16, 16, 3, padding=1)(hidden))
made = nn.Conv2DTranspose(16, 3, 4, stride=2, padding=1)(hidden)
loss = paddle.mean((made - image) ** 2)
paddle.optimizer.Momentum(0.1).minimize(loss)
main, start, scope = (
    static.default_main_program(), static.default_startup_program(), static.global_scope()
)
names = [each.name for each in main.all_parameters()]
feed = {"image": np.random.default_rng(0).normal(size=(2, 3, 12, 12)).astype("float32")}

def train(tier):
    paddle.seed(3)
    paddle.set_flags({"FLAGS_graphopt_tier": tier})
    executor = static.Executor(paddle.CPUPlace())
    executor.run(start)
    losses = [executor.run(main, feed, [loss])[0] for _ in range(3)]
    assert "jax" not in sys.modules or tier == "full", "a step needs no JAX"
    if tier == "host":
        orders = [scope.find_var(name).layout.order for name in names]
        assert (2, 3, 1, 0) in orders, orders
    return losses + [np.array(scope.find_var(name).get_tensor()) for name in names]

for found, wanted in zip(train("host"), train("full")):
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)
print("trained")
"""


def said(code: str, *arguments: object) -> str:
    """Return the output of a process that begins with NumPy, and stores nothing on disk."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "FLAGS_graphopt_tier": "auto", "FLAGS_graphopt_cache_dir": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_a_first_result_needs_no_jax() -> None:
    """No parameter is copied; a thread imports JAX for the full form."""
    assert "full: from run " in said(RUNS, MODEL)


def test_the_import_of_jax_is_no_part_of_a_run() -> None:
    """A program with random ops imports JAX, which does not count for its time limit."""
    assert "'host: " in said(DRAWS)


def test_filters_in_another_order_need_no_jax() -> None:
    """NumPy transposes state to the order of the step; readers see the declared order."""
    assert said(FILTERS) == "trained\n"


@pytest.mark.exhaustive
def test_a_startup_program_needs_no_jax() -> None:
    """The state equals that of XLA's form, and a training continues from it."""
    assert "a startup program" in said(STARTS)
