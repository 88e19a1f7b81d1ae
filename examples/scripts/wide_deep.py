"""Sparse features for clicks: a wide and a deep part, and the area under the curve (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(6)
SLOTS, IDS = 4, 50

ids = [static.data("slot%d" % n, [None, 1], "int64") for n in range(SLOTS)]
dense = static.data("dense", [None, 3], "float32")
click = static.data("click", [None, 1], "int64")

vectors = [
    paddle.reshape(static.nn.embedding(x, [IDS, 4], param_attr="table%d" % n), [-1, 4])
    for n, x in enumerate(ids)
]
deep = paddle.concat([dense] + vectors, axis=1)
for width in (16, 8):
    deep = static.nn.fc(deep, width, activation="relu")
score = static.nn.fc(deep, 1) + static.nn.fc(dense, 1)
probability = paddle.nn.functional.sigmoid(score)
loss = paddle.mean(
    paddle.nn.functional.log_loss(probability, paddle.cast(click, "float32"), epsilon=1e-7)
)
auc, batch_auc, states = static.auc(paddle.concat([1 - probability, probability], axis=1), click)
paddle.optimizer.Adam(learning_rate=0.02).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
chance = np.random.RandomState(0)
rows = {"slot%d" % n: chance.randint(0, IDS, [128, 1]) for n in range(SLOTS)}
rows["dense"] = chance.rand(128, 3).astype("float32")
rows["click"] = ((rows["slot0"] + rows["slot1"]) % 2).astype("int64")
for epoch in range(30):
    for state in states:  # the area of this epoch alone
        tensor = static.global_scope().find_var(state.name).get_tensor()
        tensor.set(np.zeros(tensor.shape(), "int64"), paddle.CPUPlace())
    loss_value, area = exe.run(feed=rows, fetch_list=[loss, auc])
    if epoch % 10 == 0:
        print("epoch %d: loss %.3f, AUC %.3f" % (epoch, float(loss_value), float(area)))

assert float(area) > 0.9
