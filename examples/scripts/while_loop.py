"""Newton's method: a loop whose number of steps depends on the data (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()

square = static.data("square", [1], "float32")


def far(root, step):
    return paddle.all(paddle.abs(root * root - square) > 1e-4 * square)


def better(root, step):
    return [(root + square / root) / 2, step + 1]


start = [square * 1.0, paddle.zeros([1], "int64")]
root, steps = static.nn.while_loop(far, better, start)
kind = static.nn.cond(
    paddle.all(root > 10), lambda: paddle.full([1], 1.0), lambda: paddle.full([1], -1.0)
)

exe = static.Executor(paddle.CPUPlace())
for number in (2.0, 10000.0):
    found, count, large = exe.run(
        feed={"square": np.array([number], "float32")}, fetch_list=[root, steps, kind]
    )
    print("the root of %g is %.4f after %d steps" % (number, found[0], count[0]))
    np.testing.assert_allclose(found[0], np.sqrt(number), rtol=1e-3)
    assert large[0] == (1 if found[0] > 10 else -1)
