"""A Transformer encoder that finds the largest number of a row, with noam_decay (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(15)

tokens = static.data("tokens", [None, 6], "int64")
largest = static.data("largest", [None, 1], "int64")
embedding = paddle.nn.Embedding(10, 16)
layer = paddle.nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32, dropout=0.0)
encoder = paddle.nn.TransformerEncoder(layer, num_layers=1)
pooled = paddle.max(encoder(embedding(tokens)), axis=1)
scores = paddle.nn.Linear(16, 10)(pooled)
loss = paddle.nn.functional.cross_entropy(scores, largest)
rate = paddle.optimizer.lr.NoamDecay(d_model=16, warmup_steps=10, learning_rate=0.2)
paddle.optimizer.AdamW(learning_rate=rate, weight_decay=0.01).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
rows = np.random.RandomState(0).randint(0, 10, [64, 6])
feed = {"tokens": rows, "largest": rows.max(1, keepdims=True)}
losses = []
for _ in range(40):
    losses.append(float(exe.run(feed=feed, fetch_list=[loss])[0]))
    rate.step()
print("loss %.3f -> %.3f" % (losses[0], losses[-1]))

assert losses[-1] < losses[0] / 2
