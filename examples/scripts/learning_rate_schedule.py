"""A warm-up followed by steps down, stepped by the script (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(11)

x = static.data("x", [None, 3], "float32")
y = static.data("y", [None, 1], "float32")
loss = paddle.mean((static.nn.fc(x, 1) - y) ** 2)
decay = paddle.optimizer.lr.PiecewiseDecay(boundaries=[6, 9], values=[0.2, 0.1, 0.05])
schedule = paddle.optimizer.lr.LinearWarmup(decay, warmup_steps=4, start_lr=0.0, end_lr=0.2)
paddle.optimizer.SGD(learning_rate=schedule).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
rows = np.random.RandomState(0).rand(16, 3).astype("float32")
feed = {"x": rows, "y": rows @ np.array([[1], [2], [3]], "float32")}
rates = []
for _ in range(16):
    (value,) = exe.run(feed=feed, fetch_list=[loss])
    rates.append(schedule.get_lr())
    schedule.step()
print("rates", ["%.3f" % rate for rate in rates], "loss %.4f" % float(value))

np.testing.assert_allclose(rates[:5], [0, 0.05, 0.1, 0.15, 0.2])
assert rates[-1] == 0.05 and float(value) < 1
