"""An operator written in Python, with its own derivative (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(9)


def soft_clip(x):
    """tanh, computed by NumPy."""
    return np.tanh(np.array(x))


def soft_clip_grad(x, y, y_grad):
    return np.array(y_grad) * (1 - np.square(np.array(y)))


def report(x):
    print("largest activation %.3f" % np.abs(np.array(x)).max())


x = static.data("x", [None, 3], "float32")
y = static.data("y", [None, 4], "float32")
hidden = static.nn.fc(x, 4)
clipped = (
    static.default_main_program()
    .current_block()
    .create_var(name="clipped", dtype="float32", shape=hidden.shape)
)
static.py_func(soft_clip, hidden, clipped, backward_func=soft_clip_grad)
static.py_func(report, clipped, None)
loss = paddle.mean((clipped - y) ** 2)
paddle.optimizer.SGD(learning_rate=0.5).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
rows = np.random.RandomState(0).rand(8, 3).astype("float32")
feed = {"x": rows, "y": np.tanh(rows @ np.ones([3, 4], "float32"))}
losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(10)]
print("loss %.4f -> %.4f" % (losses[0], losses[-1]))

assert losses[-1] < losses[0] / 2
