"""Sentences of different lengths, classified from their LoD (Paddle 1.8)."""

import numpy as np
import paddle
import paddle.fluid as fluid

WORDS, CLASSES = 30, 2


def sentences():
    chance = np.random.RandomState(0)
    for _ in range(64):
        label = int(chance.randint(CLASSES))
        low = 15 * label
        yield chance.randint(low, low + 15, chance.randint(2, 6)).tolist(), [label]


words = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
label = fluid.layers.data(name="label", shape=[1], dtype="int64")
embedded = fluid.layers.embedding(words, size=[WORDS, 8])
conv = fluid.nets.sequence_conv_pool(embedded, num_filters=8, filter_size=3, act="tanh")
mean = fluid.layers.sequence_pool(embedded, "average")
prediction = fluid.layers.fc([conv, mean], size=CLASSES, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
accuracy = fluid.layers.accuracy(prediction, label)
fluid.default_startup_program().random_seed = 4
fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)

place = fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder(feed_list=[words, label], place=place)
batches = [feeder.feed(batch) for batch in paddle.batch(sentences, batch_size=32)()]

for epoch in range(8):
    for batch in batches:
        loss_value, found = exe.run(feed=batch, fetch_list=[loss, accuracy])
    print("epoch %d: loss %.3f, accuracy %.3f" % (epoch, loss_value[0], found[0]))

assert found[0] > 0.9
