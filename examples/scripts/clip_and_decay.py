"""Gradients clipped by their global norm, weights decayed by L2 (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(10)

x = static.data("x", [None, 4], "float32")
y = static.data("y", [None, 1], "float32")
plain = paddle.ParamAttr(name="plain", regularizer=paddle.regularizer.L2Decay(0.0))
hidden = static.nn.fc(x, 16, activation="relu")
loss = paddle.mean((static.nn.fc(hidden, 1, weight_attr=plain) - y) ** 2)
optimizer = paddle.optimizer.Momentum(
    learning_rate=0.05,
    momentum=0.9,
    weight_decay=paddle.regularizer.L2Decay(1e-3),
    grad_clip=paddle.nn.ClipGradByGlobalNorm(clip_norm=1.0),
)
_, pairs = optimizer.minimize(loss)
print("updated", [parameter.name for parameter, _ in pairs])

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
rows = np.random.RandomState(0).rand(32, 4).astype("float32")
feed = {"x": rows, "y": 100 * rows[:, :1]}  # without clipping, the first step would diverge
gradients = [gradient.name for _, gradient in pairs]
losses = []
for _ in range(30):
    value, *clipped = exe.run(feed=feed, fetch_list=[loss] + gradients)
    losses.append(float(value))
print("loss %.1f -> %.1f" % (losses[0], losses[-1]))

assert np.isfinite(losses).all() and losses[-1] < losses[0]
