"""Residual blocks trained on two devices with flags of BuildStrategy (Paddle 2.x)."""

import os

os.environ["CPU_NUM"] = "2"

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(1)


def conv_bn(x, filters, stride=1, act=None):
    x = static.nn.conv2d(x, filters, filter_size=3, stride=stride, padding=1, bias_attr=False)
    return static.nn.batch_norm(x, act=act)


def block(x, filters, stride):
    short = x if stride == 1 else conv_bn(x, filters, stride)
    out = conv_bn(conv_bn(x, filters, stride, "relu"), filters)
    return paddle.nn.functional.relu(out + short)


image = static.data("image", [None, 3, 16, 16], "float32")
label = static.data("label", [None, 1], "int64")
x = conv_bn(image, 8, act="relu")
for filters, stride in ((8, 1), (16, 2)):
    x = block(x, filters, stride)
x = paddle.mean(x, axis=[2, 3])
loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(x, 4), label))
paddle.optimizer.Momentum(learning_rate=0.05, momentum=0.9).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())

strategy = static.BuildStrategy()
strategy.fuse_bn_act_ops = True
strategy.fuse_all_optimizer_ops = True
program = static.CompiledProgram(
    static.default_main_program(), build_strategy=strategy
).with_data_parallel(loss_name=loss.name, places=static.cpu_places(2))

chance = np.random.RandomState(0)
labels = chance.randint(0, 4, [16, 1])
images = (labels[:, :, None, None] + chance.rand(16, 3, 16, 16)).astype("float32")
losses = []
for step in range(8):
    (values,) = exe.run(program, feed={"image": images, "label": labels}, fetch_list=[loss])
    losses.append(values.mean())  # one loss for each device
    print("step %d: loss %.3f" % (step, losses[-1]))

assert losses[-1] < losses[0] / 2
