"""The example of BuildStrategy.gradient_scale_strategy on Paddle's page.

Changed: the imports, and use_cuda to False.
"""

import numpy

import graphopt as paddle
import graphopt.static as static

paddle.enable_static()

use_cuda = False
place = paddle.CUDAPlace(0) if use_cuda else paddle.CPUPlace()
exe = static.Executor(place)

data = static.data(name="X", shape=[None, 1], dtype="float32")
hidden = static.nn.fc(data, size=10)
loss = paddle.mean(hidden)
paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)

exe.run(static.default_startup_program())

build_strategy = static.BuildStrategy()
build_strategy.gradient_scale_strategy = static.BuildStrategy.GradientScaleStrategy.Customized
compiled_prog = static.CompiledProgram(
    static.default_main_program(),
    build_strategy=build_strategy,
)

x = numpy.random.random(size=(10, 1)).astype("float32")
loss_grad = numpy.ones((1)).astype("float32") * 0.01  # noqa: UP034
loss_grad_name = loss.name + "@GRAD"
loss_data = exe.run(
    compiled_prog,
    feed={"X": x, loss_grad_name: loss_grad},
    fetch_list=[loss.name, loss_grad_name],
)
