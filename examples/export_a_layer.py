"""A layer with a data-dependent number of steps, as a program, as files, and deployed.

python examples/export_a_layer.py
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import inference, nn
from graphopt.static import BuildStrategy, InputSpec


class Damped(nn.Layer):
    """Applies one linear layer again until the largest number is small."""

    def __init__(self) -> None:
        super().__init__()
        half = nn.initializer.Assign(np.diag([0.5, 0.25]).astype("float32"))
        self.linear = nn.Linear(2, 2, weight_attr=paddle.ParamAttr(initializer=half))

    def forward(self, x: Any, limit: float = 1.0) -> Any:
        """Return the damped numbers, and the number of steps."""
        steps = 0
        while x.abs().max() > limit:
            x = self.linear(x)
            steps += 1
            if steps == 10:
                break
        return x, steps


def main() -> tuple[list[int], list[int]]:
    """Compare the steps for three inputs, of the traced layer and of the deployed files."""
    strategy = BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    net = Damped()
    net.eval()
    net = paddle.jit.to_static(
        net, input_spec=[InputSpec([None, 2], name="x")], build_strategy=strategy
    )
    inputs = [np.full([rows, 2], value, "float32") for rows, value in ((1, 0.5), (2, 3), (3, 1e9))]
    traced = [int(net(x)[1]) for x in inputs]
    print(paddle.explain(net))

    with TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "damped")
        paddle.jit.save(net, prefix)
        config = inference.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")
        predictor = inference.create_predictor(config)
        deployed = [int(predictor.run([x])[1]) for x in inputs]
    return traced, deployed


if __name__ == "__main__":
    print(main())
