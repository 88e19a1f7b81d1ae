"""Two programs that share parameters: a generator against a discriminator (Paddle 2.x)."""

import numpy as np
import paddle
from paddle import static

paddle.enable_static()
paddle.seed(5)
cross_entropy = paddle.nn.functional.binary_cross_entropy_with_logits


def generator(noise):
    hidden = static.nn.fc(noise, 16, activation="relu", weight_attr="g1.w", bias_attr="g1.b")
    return static.nn.fc(hidden, 2, weight_attr="g2.w", bias_attr="g2.b")


def discriminator(points):
    hidden = static.nn.fc(points, 16, activation="relu", weight_attr="d1.w", bias_attr="d1.b")
    return static.nn.fc(hidden, 1, weight_attr="d2.w", bias_attr="d2.b")


def parameters(program, prefix):
    return [p.name for p in program.all_parameters() if p.name.startswith(prefix)]


startup, judge_program, make_program = static.Program(), static.Program(), static.Program()
with static.program_guard(judge_program, startup):
    points = static.data("points", [None, 2], "float32")
    real = static.data("real", [None, 1], "float32")
    judge_loss = cross_entropy(discriminator(points), real)
    names = parameters(judge_program, "d")
    paddle.optimizer.Adam(0.01).minimize(judge_loss, parameters=names)
with static.program_guard(make_program, startup):
    noise = static.data("noise", [None, 4], "float32")
    made = generator(noise)
    sample_program = make_program.clone(for_test=True)
    verdict = discriminator(made)
    make_loss = cross_entropy(verdict, paddle.ones_like(verdict))
    names = parameters(make_program, "g")
    paddle.optimizer.Adam(0.02).minimize(make_loss, parameters=names)

exe = static.Executor(paddle.CPUPlace())
exe.run(startup)
chance = np.random.RandomState(0)
truth = np.concatenate([np.ones([32, 1]), np.zeros([32, 1])]).astype("float32")
for step in range(150):
    seeds = chance.randn(32, 4).astype("float32")
    (faked,) = exe.run(sample_program, feed={"noise": seeds}, fetch_list=[made])
    true = (chance.randn(32, 2) * 0.1 + [2, -1]).astype("float32")
    both = np.concatenate([true, faked])
    (judged,) = exe.run(
        judge_program, feed={"points": both, "real": truth}, fetch_list=[judge_loss]
    )
    (fooled,) = exe.run(make_program, feed={"noise": seeds}, fetch_list=[make_loss])
    if step % 50 == 0:
        print("step %d: discriminator %.3f, generator %.3f" % (step, judged, fooled))

print("made around", faked.mean(0), "for points around [2, -1]")
assert np.abs(faked.mean(0) - [2, -1]).max() < 1
