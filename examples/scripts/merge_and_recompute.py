"""Gradients of four small batches merged to one step, activations computed again (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static
from paddle.incubate.optimizer import GradientMergeOptimizer, RecomputeOptimizer

paddle.enable_static()
ROWS = np.random.RandomState(0).rand(16, 6).astype("float32")
STEPS = 4


def train(merge):
    """The weights after two passes over the rows, in small batches or in one."""
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        x = static.data("x", [None, 6], "float32")
        value = paddle.nn.initializer.Constant(0.1)
        attr = paddle.ParamAttr(name="w", initializer=value)
        hidden = static.nn.fc(x, 8, activation="tanh", weight_attr=attr)
        out = static.nn.fc(hidden, 1, weight_attr=paddle.ParamAttr(initializer=value))
        loss = paddle.mean((out - 1.0) ** 2)
        optimizer = RecomputeOptimizer(paddle.optimizer.SGD(0.1))
        optimizer._set_checkpoints([hidden])
        if merge:
            optimizer = GradientMergeOptimizer(optimizer, k_steps=STEPS, avg=True)
        optimizer.minimize(loss)
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    with static.scope_guard(scope):
        exe.run(startup)
        for rows in 2 * (np.split(ROWS, STEPS) if merge else [ROWS]):
            exe.run(main, feed={"x": rows}, fetch_list=[loss])
        return np.array(scope.find_var("w").get_tensor())


merged, at_once = train(True), train(False)
print("largest difference", abs(merged - at_once).max())

assert np.allclose(merged, at_once, atol=1e-6) and not np.allclose(merged, 0.1)
