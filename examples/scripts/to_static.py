"""A layer traced with a BuildStrategy, saved with jit.save and loaded (Paddle 2.x)."""

import os
import tempfile

import numpy as np
import paddle
from paddle.static import BuildStrategy, InputSpec


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Linear(4, 16)
        self.second = paddle.nn.Linear(16, 2)

    def forward(self, x):
        hidden = paddle.nn.functional.relu(self.first(x))
        if paddle.mean(hidden) > 1.0:  # decided when it runs
            hidden = hidden / paddle.mean(hidden)
        return self.second(hidden)


paddle.disable_static()  # as Paddle starts
paddle.seed(3)
strategy = BuildStrategy()
strategy.fuse_gemm_epilogue = True
net = paddle.jit.to_static(
    Net(), input_spec=[InputSpec([None, 4], "float32", "x")], build_strategy=strategy
)
net.eval()
rows = np.random.RandomState(0).randn(5, 4).astype("float32")
before = net(paddle.to_tensor(rows)).numpy()

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net")
    paddle.jit.save(net, path)
    after = paddle.jit.load(path)(paddle.to_tensor(rows)).numpy()
print("saved and loaded, largest difference", abs(after - before).max())

assert before.shape == (5, 2) and np.allclose(after, before, atol=1e-6)
