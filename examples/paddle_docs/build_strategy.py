"""The example of Paddle's page on paddle.static.BuildStrategy.

Changed: the imports.
"""

import graphopt as paddle
import graphopt.static as static

paddle.enable_static()

data = static.data(name="x", shape=[None, 1], dtype="float32")
hidden = static.nn.fc(data, size=10)
loss = paddle.mean(hidden)
paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)

build_strategy = static.BuildStrategy()
build_strategy.enable_inplace = True
build_strategy.memory_optimize = True
build_strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
program = static.CompiledProgram(static.default_main_program(), build_strategy=build_strategy)
