"""An inference model of Paddle 1.8's functions: saved, loaded by folder, and run in batches."""

import tempfile

import numpy as np
import paddle.fluid as fluid

image = fluid.data(name="image", shape=[None, 1, 8, 8], dtype="float32")
conv = fluid.layers.conv2d(image, num_filters=4, filter_size=3, act="relu")
pool = fluid.layers.pool2d(conv, pool_size=2, pool_stride=2)
dropped = fluid.layers.dropout(pool, dropout_prob=0.5)
softmax = fluid.layers.fc(dropped, size=3, act="softmax")
fluid.default_startup_program().random_seed = 13

place = fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
folder = tempfile.mkdtemp()
fluid.io.save_inference_model(folder, ["image"], [softmax], exe)

images = np.random.RandomState(0).rand(6, 1, 8, 8).astype("float32")
with fluid.scope_guard(fluid.Scope()):
    program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
    print("feeds", feeds, "fetches", [f.name for f in fetches], len(program.global_block().ops))
    (whole,) = exe.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    parts = [
        exe.run(program, feed={feeds[0]: images[at : at + 2]}, fetch_list=fetches)[0]
        for at in (0, 2, 4)
    ]

np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-5)
np.testing.assert_allclose(whole.sum(1), np.ones(6), rtol=1e-5)
