"""Train, save an inference model, and serve it with paddle.inference (Paddle 2.x)."""

import tempfile

import numpy as np
import paddle
from paddle import inference, static

paddle.enable_static()
paddle.seed(2)

x = static.data("x", [None, 4], "float32")
y = static.data("y", [None, 1], "float32")
predicted = static.nn.fc(static.nn.fc(x, 8, activation="relu"), 1)
loss = paddle.mean(paddle.nn.functional.square_error_cost(predicted, y))
paddle.optimizer.Adam(learning_rate=0.02).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
rows = np.random.RandomState(0).rand(64, 4).astype("float32")
for _ in range(50):
    exe.run(feed={"x": rows, "y": rows.sum(1, keepdims=True)}, fetch_list=[loss])

prefix = tempfile.mkdtemp() + "/sum"
static.save_inference_model(prefix, [x], [predicted], exe)

config = inference.Config(prefix + ".pdmodel", prefix + ".pdiparams")
config.disable_gpu()
config.enable_memory_optim()
predictor = inference.create_predictor(config)
handle = predictor.get_input_handle(predictor.get_input_names()[0])
handle.copy_from_cpu(rows[:3])
predictor.run()
served = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
print("served", served.ravel(), "sums", rows[:3].sum(1))

program, feed_names, fetched = static.load_inference_model(prefix, exe)
(expected,) = exe.run(program, feed={feed_names[0]: rows[:3]}, fetch_list=fetched)
np.testing.assert_allclose(served, expected, rtol=1e-5)
