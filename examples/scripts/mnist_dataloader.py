"""A convolutional network on digits, fed by paddle.io.DataLoader (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static
from paddle.io import DataLoader, Dataset

paddle.enable_static()
paddle.seed(0)


class Digits(Dataset):
    """Images of 10 patterns with noise, as MNIST is laid out: [1, 28, 28] and a label."""

    def __init__(self, count, seed):
        chance = np.random.RandomState(seed)
        patterns = np.random.RandomState(0).rand(10, 1, 28, 28)
        self.labels = chance.randint(0, 10, [count, 1])
        noise = chance.rand(count, 1, 28, 28)
        self.images = (patterns[self.labels[:, 0]] + noise - 1).astype("float32")

    def __getitem__(self, index):
        return self.images[index], self.labels[index]

    def __len__(self):
        return len(self.labels)


image = static.data("image", [None, 1, 28, 28], "float32")
label = static.data("label", [None, 1], "int64")
conv = static.nn.conv2d(image, num_filters=8, filter_size=5, stride=2, act="relu")
pool = paddle.nn.functional.max_pool2d(conv, kernel_size=2, stride=2)
scores = static.nn.fc(pool, size=10)
loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
accuracy = static.accuracy(paddle.nn.functional.softmax(scores), label)
test_program = static.default_main_program().clone(for_test=True)
paddle.optimizer.Adam(learning_rate=0.01).minimize(loss)

place = paddle.CPUPlace()
exe = static.Executor(place)
exe.run(static.default_startup_program())

feeds = [image, label]
train_loader = DataLoader(
    Digits(320, seed=1), feeds, places=place, batch_size=32, shuffle=True, return_list=False
)
test_loader = DataLoader(Digits(64, seed=2), feeds, places=place, batch_size=64, return_list=False)

for epoch in range(2):
    for feed in train_loader():
        (loss_value,) = exe.run(feed=feed, fetch_list=[loss])
    (found,) = exe.run(test_program, feed=next(iter(test_loader())), fetch_list=[accuracy])
    print("epoch %d: loss %.3f, accuracy %.3f" % (epoch, float(loss_value), float(found)))

assert float(found) > 0.9
