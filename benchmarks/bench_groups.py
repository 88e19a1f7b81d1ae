"""The gain of fusion groups: training steps as loose ops, and with each of the two flags.

    python benchmarks/bench_groups.py [--rounds 16] [--only resnet18]

For each model and flag: temporary bytes and bytes that XLA's ops read and write, by XLA's own
analyses, and times of a step. The three programs alternate, in the opposite order every other
round; a ratio is the median of the ratios to the loose ops within each round, for wall time and for
processor time of the whole process. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import graphopt as paddle
from graphopt import nn, static
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.nn import functional as F
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.settings.flags import CACHE, TIER

SEED = 5
CLASSES = 100
LOOSE = "loose ops"
SETTINGS = (LOOSE, "enable_auto_fusion", "build_cinn_pass")
FUSIONS = ("fuse_bn_act_ops", "fuse_bn_add_act_ops")
"""The settings that are on in all programs."""


# -- models ----------------------------------------------------------------------------------------


def resnet18() -> Any:
    """Build ResNet-18; return the logits of 8 images of 128 x 128."""
    return paddle.vision.models.resnet18(num_classes=CLASSES)(static.data("x", [8, 3, 128, 128]))


def mobilenet() -> Any:
    """Build MobileNetV2; return the logits of 8 images of 96 x 96."""
    return paddle.vision.models.mobilenet_v2(num_classes=CLASSES)(static.data("x", [8, 3, 96, 96]))


def transformer() -> Any:
    """Build four encoder layers of width 256; return the logits of 8 sequences of 128 words."""
    h: Any = static.data("x", [8, 128, 256])
    for _ in range(4):
        h = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu")(h)
    return nn.Linear(256, CLASSES)(h)


def mixer() -> Any:
    """Build six mixer layers of width 128; return the logits of 16 sequences of 64 tokens."""
    h: Any = static.data("x", [16, 64, 128])
    for _ in range(6):
        across = paddle.transpose(nn.LayerNorm(128)(h), [0, 2, 1])
        across = nn.Linear(256, 64)(F.gelu(nn.Linear(64, 256)(across)))
        h = h + paddle.transpose(across, [0, 2, 1])
        h = h + nn.Linear(512, 128)(F.gelu(nn.Linear(128, 512)(nn.LayerNorm(128)(h))))
    return nn.Linear(128, CLASSES)(h)


MODELS: dict[str, Callable[[], Any]] = {
    made.__name__: made for made in (resnet18, mobilenet, transformer, mixer)
}


# -- measuring -------------------------------------------------------------------------------------


class Training:
    """A model under one setting: its step, and XLA's analyses of the compiled step."""

    def __init__(self, build: Callable[[], Any], setting: str) -> None:
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), paddle.utils.unique_name.guard():
            paddle.seed(SEED)
            logits = build()
            label = static.data("label", [*logits.shape[:-1], 1], "int64")
            self.loss = paddle.mean(F.cross_entropy(logits, label))
            paddle.optimizer.Momentum(0.001, 0.9).minimize(self.loss)
        strategy = static.BuildStrategy()
        for flag in (*FUSIONS, *({setting} - {LOOSE})):
            setattr(strategy, flag, True)
        self.program = static.CompiledProgram(main, strategy)
        draw = np.random.default_rng(SEED)
        self.feed: dict[str, Any] = {
            "x": draw.normal(size=main.global_block().var("x").shape).astype("float32"),
            "label": draw.integers(0, CLASSES, size=label.shape),
        }
        names = tuple(self.feed), (self.loss.name,)
        self.compilation = Compilation(main, *names, strategy, (static.cpu_places(1)[0],))
        self.exe, self.scope = static.Executor(), static.Scope()
        self.exe.run(startup, scope=self.scope)

    def step(self) -> float:
        """Run one step, and return its loss."""
        fetched: Any = self.exe.run(self.program, self.feed, [self.loss], scope=self.scope)
        return float(fetched[0])

    def losses(self) -> list[float]:
        """Run three steps, with the same random draws for each setting; return their losses."""
        paddle.seed(SEED)
        return [self.step() for _ in range(3)]

    def analysed(self) -> tuple[int, float]:
        """Count temporary bytes, and bytes that the ops of the step read and write."""
        compiled = compile_program(self.compilation)
        plan = compiled.plan
        groups = (plan.updated, (*plan.read_only, *plan.prepared), plan.feeds)
        types = [
            tuple(jax.ShapeDtypeStruct(shape_of(p.type), dtype_of(p.type).numpy) for p in ports)
            for ports in groups
        ]
        with jax.enable_x64(True):
            key = jax.ShapeDtypeStruct((2,), np.uint32)
            lowered = compiled.map_replicas(1, even=True).function.lower(*types, key)
            made = lowered.compile(compiled.options())
        costs: Any = made.cost_analysis()
        return made.memory_analysis().temp_size_in_bytes, costs["bytes accessed"]


class Seconds(NamedTuple):
    wall: float
    processor: float


def seconds(step: Callable[[], float]) -> Seconds:
    """Measure the time of one step."""
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return Seconds(time.perf_counter() - wall, time.process_time() - processor)


def measure(name: str, rounds: int) -> None:
    """Print the rows of one model."""
    trainings = {setting: Training(MODELS[name], setting) for setting in SETTINGS}
    analysed = {setting: training.analysed() for setting, training in trainings.items()}
    losses = {setting: training.losses() for setting, training in trainings.items()}
    found: list[dict[str, Seconds]] = []
    for at in range(rounds):
        order = SETTINGS if at % 2 else SETTINGS[::-1]
        found.append({setting: seconds(trainings[setting].step) for setting in order})
    for setting in SETTINGS:
        temporary, traffic = analysed[setting]
        loose, other = analysed[LOOSE]
        wall = [each[setting].wall for each in found]
        cells = [f"{temporary / 1e6:.1f} MB", f"{temporary / loose:.2f}"]
        cells += [f"{traffic / 1e6:.0f} MB", f"{traffic / other:.2f}"]
        cells += [f"{statistics.median(wall) * 1e3:.1f} ms"]
        cells += [ratio([each[setting][i] / each[LOOSE][i] for each in found]) for i in range(2)]
        pairs = zip(losses[setting], losses[LOOSE], strict=True)
        cells += [f"{max(abs(new / old - 1) for new, old in pairs):.0e}"]
        print(f"| {name} | {setting} | {' | '.join(cells)} |", flush=True)


def ratio(values: list[float]) -> str:
    """Format the median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} [{low:.3f}-{high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--only", choices=MODELS)
    options = parser.parse_args()
    paddle.enable_static()
    paddle.set_flags({CACHE: "", TIER: "full"})
    columns = ("model", "setting", "temporary", "ratio", "traffic", "ratio", "step")
    columns += ("wall time", "processor time", "losses differ by")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in [options.only] if options.only else MODELS:
        measure(name, options.rounds)


if __name__ == "__main__":
    main()
