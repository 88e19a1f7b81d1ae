"""Training in float16 with dynamic loss scaling (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(5)

x = static.data("x", [None, 8], "float32")
y = static.data("y", [None, 1], "int64")
hidden = static.nn.fc(x, 32, activation="relu")
loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(hidden, 3), y))
optimizer = static.amp.decorate(
    paddle.optimizer.Adam(0.02),
    static.amp.AutoMixedPrecisionLists(custom_white_list={"matmul_v2", "mul"}),
    init_loss_scaling=2.0**15,
    incr_every_n_steps=10,
    use_dynamic_loss_scaling=True,
)
optimizer.minimize(loss)

place = paddle.CPUPlace()
exe = static.Executor(place)
exe.run(static.default_startup_program())
optimizer.amp_init(place)
rng = np.random.RandomState(0)
rows = rng.randn(64, 8).astype("float32")
feed = {"x": rows, "y": rows[:, :3].argmax(axis=1).reshape(-1, 1)}
losses = []
for _ in range(30):
    value, scale = exe.run(feed=feed, fetch_list=[loss, optimizer.get_loss_scaling()])
    losses.append(float(value))
print("loss %.3f -> %.3f, its factor %d" % (losses[0], losses[-1], scale))

casts = sum(op.type == "cast" for op in static.default_main_program().global_block().ops)
assert casts > 0 and scale > 2.0**15 and losses[-1] < 0.5 * losses[0]
