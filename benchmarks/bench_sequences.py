"""First batches of networks over sentences, against Paddle 1.8.5: most batches have a new size.

    python benchmarks/bench_sequences.py
    python benchmarks/bench_sequences.py --fluid PYTHON --batches 50 --rounds 3
    python benchmarks/bench_sequences.py --only recommender

The networks come from Paddle's book: sentiment by a stacked LSTM and by convolutions, semantic
roles by LSTMs in both directions and a conditional random field, and a recommender. Sentences have
5 to 39 words. `--fluid` is the Python of an environment with paddlepaddle 1.8.5. Each run has its
own process, and graphopt has no cache on disk; the engines alternate.

Times are CPU seconds from the first layer to the last batch, with the startup program and without
the import of `fluid`; medians of the rounds. Initial parameters of the engines differ, so it
compares only the means of their losses over the last ten batches. Prints Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Runs = list[dict[str, Any]]

GRAPHOPT, PADDLE = "graphopt", "paddle"
HIDDEN, EMBEDDING, VOCABULARY, LABELS = 512, 128, 5000, 60


# -- networks, in the API of both engines ---------------------------------------------------------


def words(fluid: Any, name: str, size: int = VOCABULARY) -> Any:
    """Build the embeddings of sentences of word ids."""
    data = fluid.data(name, [None, 1], "int64", lod_level=1)
    return fluid.embedding(data, [size, EMBEDDING], is_sparse=False)


def classified(fluid: Any, features: Any) -> Any:
    """Build the mean loss of two classes, minimized by Adagrad."""
    layers = fluid.layers
    prediction = layers.fc(features, 2, act="softmax")
    label = fluid.data("label", [None, 1], "int64")
    loss = layers.mean(layers.cross_entropy(prediction, label))
    fluid.optimizer.Adagrad(0.002).minimize(loss)
    return loss


def stacked_lstm(fluid: Any) -> Any:
    """Build three LSTM layers in alternating directions, over the last two layers' outputs."""
    layers = fluid.layers
    first = layers.fc(layers.reshape(words(fluid, "words"), [-1, EMBEDDING]), HIDDEN)
    lstm, _ = layers.dynamic_lstm(first, HIDDEN)
    inputs = [first, lstm]
    for i in (2, 3):
        joined = layers.fc(inputs, HIDDEN)
        lstm, _ = layers.dynamic_lstm(joined, HIDDEN, is_reverse=i % 2 == 0)
        inputs = [joined, lstm]
    return classified(fluid, [layers.sequence_pool(x, "max") for x in inputs])


def convolutions(fluid: Any) -> Any:
    """Build convolutions over windows of three and of four words."""
    data = fluid.layers.reshape(words(fluid, "words"), [-1, EMBEDDING])
    pooled = [
        fluid.nets.sequence_conv_pool(data, HIDDEN, width, act="tanh", pool_type="sqrt")
        for width in (3, 4)
    ]
    return classified(fluid, pooled)


def semantic_roles(fluid: Any) -> Any:
    """Build four LSTM layers in alternating directions over six columns, and a CRF."""
    layers = fluid.layers
    columns = [words(fluid, f"words{i}") for i in range(6)] + [words(fluid, "mark", 2)]
    mixed = layers.sums(
        [layers.fc(layers.reshape(column, [-1, EMBEDDING]), HIDDEN) for column in columns]
    )
    how = {
        "candidate_activation": "relu",
        "gate_activation": "sigmoid",
        "cell_activation": "sigmoid",
    }
    lstm, _ = layers.dynamic_lstm(mixed, HIDDEN, **how)
    inputs = [mixed, lstm]
    for i in range(1, 4):
        mixed = layers.sums([layers.fc(x, HIDDEN, act="tanh") for x in inputs])
        lstm, _ = layers.dynamic_lstm(mixed, HIDDEN, is_reverse=i % 2 == 1, **how)
        inputs = [mixed, lstm]
    scores = layers.sums([layers.fc(x, LABELS, act="tanh") for x in inputs])
    target = fluid.data("target", [None, 1], "int64", lod_level=1)
    cost = layers.linear_chain_crf(scores, target, fluid.ParamAttr(name="crfw", learning_rate=1e-3))
    loss = layers.mean(cost)
    fluid.optimizer.SGD(0.01).minimize(loss)
    return loss


def recommender(fluid: Any) -> Any:
    """Build vectors of users and films; their similarity is the score."""
    layers = fluid.layers

    def feature(name: str, size: int, width: int) -> Any:
        data = fluid.data(name, [None, 1], "int64")
        found = layers.reshape(fluid.embedding(data, [size, width]), [-1, width])
        return layers.fc(found, width)

    user = [feature("user", 6041, 32), feature("sex", 2, 16), feature("age", 7, 16)]
    user.append(feature("job", 21, 16))
    film = [feature("film", 3953, 32)]
    kinds = layers.reshape(words(fluid, "kinds", 18), [-1, EMBEDDING])
    film.append(layers.sequence_pool(kinds, "sum"))
    title = layers.reshape(words(fluid, "title"), [-1, EMBEDDING])
    film.append(fluid.nets.sequence_conv_pool(title, HIDDEN, 3, act="tanh", pool_type="sum"))
    both = [layers.fc(layers.concat(x, 1), 200, act="tanh") for x in (user, film)]
    near = layers.scale(layers.cos_sim(*both), scale=5.0)
    score = fluid.data("score", [None, 1], "float32")
    loss = layers.mean(layers.square_error_cost(near, score))
    fluid.optimizer.SGD(0.2).minimize(loss)
    return loss


# name -> (builder, rows of a batch, feeds of sentences and other feeds with their sizes)
NETWORKS: dict[str, Any] = {
    "stacked-lstm": (stacked_lstm, 32, {"words": VOCABULARY}, {"label": 2}),
    "convolutions": (convolutions, 32, {"words": VOCABULARY}, {"label": 2}),
    "semantic-roles": (
        semantic_roles,
        10,
        {**{f"words{i}": VOCABULARY for i in range(6)}, "mark": 2, "target": LABELS},
        {},
    ),
    "recommender": (
        recommender,
        64,
        {"kinds": 18, "title": VOCABULARY},
        {"user": 6041, "sex": 2, "age": 7, "job": 21, "film": 3953, "score": 5},
    ),
}


# -- one run, in a process of its own --------------------------------------------------------------


def run(engine: str, name: str, batches: int) -> dict[str, Any]:
    """Build and train a network; return CPU seconds, losses, and the count of compiled sizes."""
    import numpy as np

    fluid = importlib.import_module(engine + ".fluid")
    begin = time.process_time()
    build, rows, sentences, labels = NETWORKS[name]
    loss = build(fluid)
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 1
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    draw = np.random.RandomState(3)
    losses: list[float] = []
    for _ in range(batches):
        lengths = draw.randint(5, 40, rows).tolist()
        feed: dict[str, Any] = {}
        for key, size in sentences.items():
            own = draw.randint(1, 4, rows).tolist() if key == "kinds" else lengths
            numbers = draw.randint(0, size, (sum(own), 1)).astype("int64")
            feed[key] = fluid.create_lod_tensor(numbers, [own], place)
        for key, size in labels.items():
            dtype = "float32" if key == "score" else "int64"
            feed[key] = draw.randint(0, size, (rows, 1)).astype(dtype)
        (value,) = exe.run(feed=feed, fetch_list=[loss])
        losses.append(float(np.asarray(value).reshape(-1)[0]))
    found: dict[str, Any] = {"cpu_s": time.process_time() - begin, "losses": losses}
    if engine == GRAPHOPT:
        found["sizes"] = exe.stats["compiled_shapes"] - 1  # without the startup program
    return found


# -- the table -------------------------------------------------------------------------------------


def measured(python: str, engine: str, name: str, batches: int) -> dict[str, Any]:
    """Call `run` in a fresh process of an engine's Python."""
    own = {"GLOG_v": "0", "GLOG_minloglevel": "3", "FLAGS_graphopt_cache_dir": ""}
    found = subprocess.run(
        [python, __file__, "--run", engine, name, str(batches)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **own},
    )
    return json.loads(found.stdout.splitlines()[-1])


def row(name: str, ours: Runs, theirs: Runs) -> str:
    """Format a line of the table; without Paddle's runs its cells are empty."""
    seconds = [statistics.median(run["cpu_s"] for run in runs) for runs in (theirs, ours) if runs]
    losses = [statistics.mean(runs[0]["losses"][-10:]) for runs in (theirs, ours) if runs]
    cells = [f"{each:.2f} s" for each in seconds]
    ratio = f"{seconds[1] / seconds[0]:.2f}" if theirs else ""
    cells = [name, *([] if theirs else [""]), *cells, ratio, str(ours[0]["sizes"])]
    return "| " + " | ".join([*cells, ", ".join(f"{loss:.3f}" for loss in losses)]) + " |"


def main() -> None:
    """Run the networks and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fluid", default="", help="the Python that has paddlepaddle 1.8.5")
    parser.add_argument("--only", default="", choices=["", *NETWORKS])
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run[0], given.run[1], int(given.run[2]))))
        return
    print("| network | Paddle | graphopt | ratio | sizes compiled | last losses |")
    print("|---|---|---|---|---|---|")
    for name in [given.only] if given.only else list(NETWORKS):
        ours: Runs = []
        theirs: Runs = []
        for _ in range(given.rounds):
            ours.append(measured(sys.executable, GRAPHOPT, name, given.batches))
            if given.fluid:
                theirs.append(measured(given.fluid, PADDLE, name, given.batches))
        print(row(name, ours, theirs), flush=True)


if __name__ == "__main__":
    main()
