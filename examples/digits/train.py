"""Train a small convolutional network on scikit-learn's digits, data-parallel on two CPU devices.

Run from the root of the repository (`make demo`). Prints the fusions of the optimizer, and leaves
the program before and after it and a plot of the training in `out/`. Fails below 97 % accuracy.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["CPU_NUM"] = "2"  # how many devices the CPU is; has to be known before anything runs

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import graphopt as paddle
import graphopt.nn.functional as F
import graphopt.static as static

BATCH = 32
TEST_IMAGES = 360
REQUIRED_ACCURACY = 0.97

Array = np.ndarray[Any, Any]


def conv_bn(x: static.Variable, filters: int, act: str | None = None) -> static.Variable:
    """Apply a 3x3 convolution that keeps the size of the image, and a batch normalization."""
    x = static.nn.conv2d(x, filters, filter_size=3, padding=1, bias_attr=False)
    return static.nn.batch_norm(x, act=act)


def network(image: static.Variable) -> static.Variable:
    """Compute the scores [n, 10] of the ten digits for images [n, 1, 8, 8]."""
    x = conv_bn(image, 32, act="relu")
    x = F.relu(conv_bn(conv_bn(x, 32, act="relu"), 32) + x)  # a residual block
    x = F.max_pool2d(x, kernel_size=2)
    x = static.nn.conv2d(x, 64, filter_size=3, act="relu")
    x = static.nn.fc(x, size=64, activation="relu")
    return static.nn.fc(x, size=10)


def fusions(dump: Path) -> static.BuildStrategy:
    """Enable every fusion that matches in this network; `dump` is the prefix of IR files."""
    strategy = static.BuildStrategy()
    strategy.fuse_bn_act_ops = True
    strategy.fuse_bn_add_act_ops = True
    strategy.fuse_elewise_add_act_ops = True
    strategy.fuse_gemm_epilogue = True
    strategy.debug_graphviz_path = str(dump)
    return strategy


def plot(losses: list[float], accuracies: list[float], misread: list[Any], path: Path) -> None:
    """Draw the loss of each step, the test accuracy of each epoch and the misread digits."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    curves, digits = figure.subfigures(2, 1, height_ratios=(2.6, 1))
    left, right = curves.subplots(1, 2)
    left.set(title="Training loss", xlabel="step", ylabel="cross entropy", yscale="log")
    left.plot(losses, color="tab:blue", alpha=0.3, linewidth=1, label="each step")
    smooth = np.exp(np.convolve(np.log(losses), np.ones(11) / 11, mode="valid"))
    left.plot(range(5, 5 + len(smooth)), smooth, color="tab:blue", label="smoothed")
    left.legend(frameon=False)
    percent = 100 * np.array(accuracies)
    right.set(title=f"Test accuracy: {percent[-1]:.1f} %", xlabel="epoch", ylabel="percent")
    right.plot(range(1, 1 + len(percent)), percent, color="tab:orange", marker="o", markersize=4)
    right.axhline(100 * REQUIRED_ACCURACY, color="gray", linestyle="--", label="required")
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    digits.suptitle(f"{len(misread)} of {TEST_IMAGES} test images are misread")
    for image, label, guess in misread[:8]:
        index = len(digits.axes) + 1
        axes = digits.add_subplot(1, min(len(misread), 8), index, title=f"{label}, read as {guess}")
        axes.imshow(image, cmap="gray_r")
        axes.axis("off")
    figure.savefig(path, dpi=120)


def load() -> list[Array]:
    """Load images [n, 1, 8, 8] for training and for testing, and the labels [n] of both."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype("float32").reshape(-1, 1, 8, 8)
    return train_test_split(images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=0)


# the stages of a program in the names of its files
STAGES = {
    "original": "as it was built",
    "fused": "after the fusions",
    "multi_devices": "for several devices",
}


def write_index(out: Path) -> None:
    """Write a page that describes each file, as an entry point."""
    rows = [
        "<li><a href=passes.html>passes.html</a>: the training program before and after each pass"
    ]
    rows += ["<li><a href=training.png>training.png</a>: loss, accuracy, and the digits misread"]
    for drawing in sorted(out.glob("*_graph.svg")):
        program, stage = drawing.name.removesuffix("_graph.svg").split("_", 1)
        words = STAGES.get(stage, stage)
        others = [drawing.with_suffix(suffix).name for suffix in (".mlir", ".dot")]
        links = ", ".join(f"<a href={name}>{name}</a>" for name in (drawing.name, *others))
        rows.append(f"<li>the {program} program {words}: {links}")
    title = "<!doctype html><meta charset=utf-8><title>digits</title><h1>digits</h1>"
    (out / "index.html").write_text(f"{title}<ul>\n" + "\n".join(rows) + "\n</ul>\n", "utf-8")


def main(epochs: int = 12, out: Path = Path("out")) -> float:
    """Train, leave the results in `out`, and return the accuracy on the test images."""
    out.mkdir(parents=True, exist_ok=True)
    paddle.enable_static()
    paddle.seed(0)
    random = np.random.default_rng(0)
    train_x, test_x, train_y, test_y = load()

    # The programs: the network for testing, and with loss and optimizer for training.
    image = static.data("image", [None, 1, 8, 8], "float32")
    label = static.data("label", [None], "int64")
    scores = network(image)
    test_program = static.default_main_program().clone(for_test=True)
    loss = F.cross_entropy(scores, label)
    paddle.optimizer.Adam(learning_rate=0.003).minimize(loss)

    # Both run on all places that CPU_NUM says, and share the parameters.
    train = static.CompiledProgram(static.default_main_program()).with_data_parallel(
        loss_name=loss.name, build_strategy=fusions(out / "train")
    )
    test = static.CompiledProgram(test_program).with_data_parallel(
        build_strategy=fusions(out / "test"), share_vars_from=train
    )
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())

    losses: list[float] = []
    accuracies: list[float] = []
    steps = len(train_x) // BATCH
    with tqdm(total=epochs * steps, unit="step") as progress:
        for _ in range(epochs):
            for rows in random.permutation(len(train_x))[: steps * BATCH].reshape(steps, BATCH):
                feed = {"image": train_x[rows], "label": train_y[rows]}
                (loss_of_each_device,) = exe.run(train, feed=feed, fetch_list=[loss])
                losses.append(float(loss_of_each_device.mean()))
                progress.update()
            (found,) = exe.run(test, feed={"image": test_x}, fetch_list=[scores])
            guesses = found.argmax(axis=1)
            accuracies.append(float(np.mean(guesses == test_y)))
            progress.set_postfix(loss=f"{losses[-1]:.4f}", test_accuracy=f"{accuracies[-1]:.1%}")

    misread = [(test_x[i, 0], test_y[i], guesses[i]) for i in np.flatnonzero(guesses != test_y)]
    plot(losses, accuracies, misread, out / "training.png")
    print(f"\nWhat the optimizer did to the training program:\n{train.explain()}\n")
    print(f"It ran on {train.stats['devices']} devices ({train.stats['mapper']}).")
    print(f"The network before and after: {out}/test_original_graph.mlir, test_fused_graph.mlir")
    train.report(out / "passes.html", "digits, training")
    print(f"Each pass, to look at in a browser: {out}/passes.html")
    print(f"Loss and accuracy: {out}/training.png")
    write_index(out)
    print(f"All files, with what they are: {out}/index.html")
    print(f"Test accuracy: {accuracies[-1]:.1%}")
    return accuracies[-1]


if __name__ == "__main__":
    sys.exit(main() < REQUIRED_ACCURACY)
