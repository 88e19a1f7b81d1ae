"""Metrics of an epoch, and weights averaged over the steps (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(3)

x = static.data("x", [None, 8], "float32")
label = static.data("label", [None, 1], "int64")
scores = static.nn.fc(x, 3)
probability = paddle.nn.functional.softmax(scores)
loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
accuracy = static.accuracy(probability, label)
test_program = static.default_main_program().clone(for_test=True)
paddle.optimizer.Adam(learning_rate=0.05).minimize(loss)
ema = static.ExponentialMovingAverage(0.8)
ema.update()

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())

chance = np.random.RandomState(0)
rows = chance.randn(96, 8).astype("float32")
labels = np.argmax(rows[:, :3], 1)[:, None]
metric = paddle.metric.Accuracy()
for epoch in range(12):
    metric.reset()
    for at in range(0, 96, 32):
        feed = {"x": rows[at : at + 32], "label": labels[at : at + 32]}
        found, _ = exe.run(feed=feed, fetch_list=[probability, loss])
        metric.update((np.argmax(found, 1)[:, None] == feed["label"]).astype("float32"))
    print("epoch %d: accuracy %.3f" % (epoch, metric.accumulate()))

everything = {"x": rows, "label": labels}
with ema.apply(exe):
    (averaged,) = exe.run(test_program, feed=everything, fetch_list=[accuracy])
(plain,) = exe.run(test_program, feed=everything, fetch_list=[accuracy])
print("accuracy of the averaged weights %.3f, of the last ones %.3f" % (averaged, plain))
assert float(averaged) > 0.7 and float(plain) > 0.8
