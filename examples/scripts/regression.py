"""Houses by one layer, as the first chapter of Paddle's book has it (Paddle 1.8)."""

import numpy as np
import paddle
import paddle.fluid as fluid


def houses():
    chance = np.random.RandomState(0)
    weights = chance.rand(13, 1)
    for _ in range(60):
        features = chance.rand(13).astype("float32")
        yield features, (features @ weights).astype("float32")


x = fluid.data(name="x", shape=[None, 13], dtype="float32")
y = fluid.data(name="y", shape=[None, 1], dtype="float32")
price = fluid.layers.fc(input=x, size=1, act=None)
loss = fluid.layers.mean(fluid.layers.square_error_cost(input=price, label=y))
main_program = fluid.default_main_program()
startup_program = fluid.default_startup_program()
main_program.random_seed = startup_program.random_seed = 16
test_program = main_program.clone(for_test=True)
fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)

place = fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(startup_program)
feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
reader = paddle.batch(paddle.reader.shuffle(houses, buf_size=60), batch_size=20)
for _ in range(20):
    for batch in reader():
        exe.run(main_program, feed=feeder.feed(batch), fetch_list=[loss])
    costs = [
        exe.run(test_program, feed=feeder.feed(batch), fetch_list=[loss])[0][0]
        for batch in reader()
    ]
print("test cost %.3f" % np.mean(costs))

assert np.mean(costs) < 0.5
