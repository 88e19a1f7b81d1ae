"""ParallelExecutor with a training and a test program (Paddle 1.8)."""

import os

os.environ["CPU_NUM"] = "2"

import numpy as np
import paddle.fluid as fluid

x = fluid.data(name="x", shape=[None, 6], dtype="float32")
y = fluid.data(name="y", shape=[None, 1], dtype="float32")
hidden = fluid.layers.fc(x, size=12, act="relu")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, size=1), y))
test_program = fluid.default_main_program().clone(for_test=True)
fluid.default_startup_program().random_seed = 8
fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)

fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
strategy = fluid.ExecutionStrategy()
strategy.num_iteration_per_drop_scope = 10
train_exe = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, exec_strategy=strategy)
test_exe = fluid.ParallelExecutor(
    use_cuda=False, main_program=test_program, share_vars_from=train_exe
)

rows = np.random.RandomState(0).rand(32, 6).astype("float32")
feed = {"x": rows, "y": rows.mean(1, keepdims=True)}
(before,) = train_exe.run(fetch_list=[loss.name], feed=feed)
for _ in range(20):
    train_exe.run(fetch_list=[loss.name], feed=feed)
(after,) = test_exe.run(fetch_list=[loss.name], feed=feed)
print("devices %d, loss %s, then in the test %s" % (train_exe.device_count, before, after))

assert train_exe.device_count == 2 and after.mean() < before.mean() / 2
