"""A reader of one's own behind a loader that the program holds, until EOFException (1.8)."""

import numpy as np
import paddle
import paddle.fluid as fluid


def lines():
    """What a file of numbers would give."""
    chance = np.random.RandomState(0)
    for _ in range(100):
        x = chance.rand(2).astype("float32")
        yield x, np.array([x[0] - x[1]], "float32")


x = fluid.data(name="x", shape=[None, 2], dtype="float32")
y = fluid.data(name="y", shape=[None, 1], dtype="float32")
loader = fluid.io.DataLoader.from_generator([x, y], capacity=4, iterable=False)
loader.set_sample_list_generator(paddle.batch(paddle.reader.shuffle(lines, 50), 10))
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, size=1), y))
fluid.default_startup_program().random_seed = 12
fluid.optimizer.Adam(learning_rate=0.1).minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for epoch in range(4):
    loader.start()
    losses = []
    try:
        while True:
            losses.append(exe.run(fetch_list=[loss])[0][0])
    except fluid.core.EOFException:
        loader.reset()
    print("epoch %d: %d batches, loss %.4f" % (epoch, len(losses), np.mean(losses)))

assert len(losses) == 10 and np.mean(losses) < 0.05
