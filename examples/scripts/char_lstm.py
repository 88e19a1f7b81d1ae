"""The next letter of a text by an LSTM layer inside a static program (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(14)

text = "static graphs are graphs " * 8
letters = sorted(set(text))
codes = np.array([letters.index(letter) for letter in text])

x = static.data("x", [None, None], "int64")
y = static.data("y", [None, None], "int64")
embedding = paddle.nn.Embedding(len(letters), 8)
lstm = paddle.nn.LSTM(8, 16)
linear = paddle.nn.Linear(16, len(letters))
hidden, _ = lstm(embedding(x))
scores = linear(hidden)
loss = paddle.nn.functional.cross_entropy(
    paddle.reshape(scores, [-1, len(letters)]), paddle.reshape(y, [-1])
)
paddle.optimizer.Adam(learning_rate=0.05).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
windows = np.stack([codes[at : at + 7] for at in range(0, 150, 6)])
for step in range(40):
    (value,) = exe.run(feed={"x": windows[:, :-1], "y": windows[:, 1:]}, fetch_list=[loss])
    if step % 10 == 0:
        print("step %d: loss %.3f" % (step, float(value)))

assert float(value) < 0.5
