"""Save in the middle of training, load in a new scope, and go on as if nothing had been (2.x)."""

import tempfile

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(7)

x = static.data("x", [None, 5], "float32")
y = static.data("y", [None, 1], "float32")
loss = paddle.mean((static.nn.fc(static.nn.fc(x, 6, activation="tanh"), 1) - y) ** 2)
paddle.optimizer.Adam(learning_rate=0.05).minimize(loss)

program = static.default_main_program()
exe = static.Executor(paddle.CPUPlace())
rows = np.random.RandomState(0).rand(16, 5).astype("float32")
feed = {"x": rows, "y": rows[:, :1] * rows[:, 1:2]}


def train(steps):
    return [float(exe.run(program, feed=feed, fetch_list=[loss])[0]) for _ in range(steps)]


exe.run(static.default_startup_program())
first = train(5)
path = tempfile.mkdtemp() + "/model"
static.save(program, path)
straight = train(5)

with static.scope_guard(static.Scope()):
    exe.run(static.default_startup_program())
    static.load(program, path, exe)
    resumed = train(5)

print("straight", straight)
print("resumed ", resumed)
np.testing.assert_allclose(resumed, straight, rtol=1e-6)
assert straight[-1] < first[0]
