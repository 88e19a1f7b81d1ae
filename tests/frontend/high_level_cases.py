"""Three networks under `paddle.Model` in static mode: outputs, callbacks, results and files.

`python high_level_cases.py tests/data/high_level.json NAME` with Paddle 2.6.2 records one of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

Found = dict[str, dict[str, Any]]


class Case:
    """A network with its data and a record of its run."""

    def __init__(self, paddle: Any, name: str) -> None:
        self.paddle = paddle
        self.random = np.random.default_rng(len(name))
        self.inputs, self.labels = getattr(self, f"_{name}_data")()
        self.make = getattr(self, f"_{name}")
        self.is_classifier, self.has_schedule = name != "line", name == "digits"
        self.found: Found = {}
        self.calls: list[list[Any]] = []

    # -- networks ----------------------------------------------------------------------------------

    def weight(self, *shape: int) -> Any:
        """Return a parameter of fixed numbers."""
        numbers = (self.random.standard_normal(shape) * 0.3).astype("float32")
        return self.paddle.ParamAttr(initializer=self.paddle.nn.initializer.Assign(numbers))

    def linear(self, rows: int, columns: int) -> Any:
        """Return a linear layer of fixed numbers."""
        weights = self.weight(rows, columns), self.weight(columns)
        return self.paddle.nn.Linear(rows, columns, *weights)

    def _digits(self) -> Any:
        nn = self.paddle.nn
        conv = nn.Conv2D(
            1, 4, 3, padding=1, weight_attr=self.weight(4, 1, 3, 3), bias_attr=self.weight(4)
        )
        layers = [conv, nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten()]
        return nn.Sequential(*layers, nn.Dropout(0.0), self.linear(64, 10))

    def _digits_data(self) -> Any:
        images = self.random.standard_normal((10, 1, 8, 8)).astype("float32")
        return [images], [self.random.integers(0, 10, (10, 1)).astype("int64")]

    def _line(self) -> Any:
        return self.paddle.nn.Sequential(
            self.linear(3, 5), self.paddle.nn.Tanh(), self.linear(5, 1)
        )

    def _line_data(self) -> Any:
        x = self.random.standard_normal((10, 3)).astype("float32")
        return [x], [(x.sum(1, keepdims=True) / 2).astype("float32")]

    def _text(self) -> Any:
        paddle, made = self.paddle, self

        class Text(paddle.nn.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.table = paddle.nn.Embedding(11, 6, weight_attr=made.weight(11, 6))
                self.out = made.linear(6, 2)

            def forward(self, ids: Any, weights: Any) -> Any:
                weighed = self.table(ids) * paddle.unsqueeze(weights, -1)
                return self.out(paddle.mean(weighed, 1))

        return Text()

    def _text_data(self) -> Any:
        ids = self.random.integers(0, 11, (10, 4)).astype("int64")
        weights = self.random.random((10, 4)).astype("float32")
        return [ids, weights], [(ids[:, :1] > 5).astype("int64")]

    # -- what happens ------------------------------------------------------------------------------

    def run(self) -> Found:
        """Train, evaluate, predict, save and load, in programs and a scope of its own."""
        paddle = self.paddle
        static = paddle.static
        with (
            static.program_guard(static.Program(), static.Program()),
            static.scope_guard(static.Scope()),
            paddle.utils.unique_name.guard(),
            tempfile.TemporaryDirectory() as folder,
        ):
            model, optimizer = self._prepared()
            self._batches(model)
            self._loops(model, optimizer, folder)
            self._files(model, folder)
            self._watched(model, optimizer, folder)
        return self.found

    def note(self, key: str, function: Callable[[], Any]) -> None:
        """Note the result and the output of a call."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            returned = plain(function())
        self.found[key] = {"returned": returned, "printed": masked(printed.getvalue())}

    def _prepared(self) -> Any:
        paddle = self.paddle
        spec, nn = paddle.static.InputSpec, paddle.nn
        specs = [
            [spec([None, *array.shape[1:]], str(array.dtype), f"{kind}_{at}")]
            for kind, arrays in (("x", self.inputs), ("y", self.labels))
            for at, array in enumerate(arrays)
        ]
        inputs = [each for group in specs[: len(self.inputs)] for each in group]
        model = paddle.Model(self.make(), inputs, specs[-1])
        rate = paddle.optimizer.lr.StepDecay(0.1, 2) if self.has_schedule else 0.1
        kinds = {1: paddle.optimizer.SGD, 2: paddle.optimizer.Adam}
        kind = paddle.optimizer.Momentum if self.has_schedule else kinds[len(self.inputs)]
        optimizer = kind(rate, parameters=model.parameters())
        loss = nn.CrossEntropyLoss() if self.is_classifier else nn.MSELoss()
        topk = (1, 2) if self.has_schedule else (1,)
        metrics = paddle.metric.Accuracy(topk) if self.is_classifier else None
        self.note("prepare", lambda: model.prepare(optimizer, loss, metrics))
        return model, optimizer

    def _batches(self, model: Any) -> None:
        x, y = ([array[:4] for array in arrays] for arrays in (self.inputs, self.labels))
        self.note("train_batch", lambda: model.train_batch(x, y))
        self.note("eval_batch", lambda: model.eval_batch(x, y))
        self.note("predict_batch", lambda: model.predict_batch(x))

    def data(self, *columns: Any) -> Any:
        """Return a Dataset of these columns."""

        class Data(self.paddle.io.Dataset):
            def __getitem__(self, index: int) -> Any:
                return tuple(column[index] for column in columns)

            def __len__(self) -> int:
                return len(columns[0])

        return Data()

    def _loops(self, model: Any, optimizer: Any, folder: str) -> None:
        both, own = self.data(*self.inputs, *self.labels), self.data(*self.inputs)
        quick: dict[str, Any] = {"batch_size": 4, "shuffle": False}
        logged = {**quick, "epochs": 2, "log_freq": 1, "save_dir": f"{folder}/run"}
        self.note("fit", lambda: model.fit(both, both, **logged, callbacks=self._watcher()))
        self.found["fit"]["calls"] = list(self.calls)
        self.found["fit"]["rate"] = round(float(optimizer.get_lr()), 6)
        self.note("fit_bar", lambda: model.fit(both, **quick, log_freq=1, verbose=1))
        self.note("fit_some", lambda: model.fit(both, **quick, verbose=0, num_iters=2))
        model.stop_training = False
        self.note("fit_whole", lambda: model.fit(both, **quick, log_freq=2, drop_last=True))
        self.note("evaluate", lambda: model.evaluate(both, 4, log_freq=1))
        self.note("evaluate_bar", lambda: model.evaluate(both, 3, verbose=1))
        self.note("predict", lambda: model.predict(own, 4, stack_outputs=True))
        self.note("predict_list", lambda: model.predict(own, 4, verbose=0))

    def _files(self, model: Any, folder: str) -> None:
        x, y = ([array[:4] for array in arrays] for arrays in (self.inputs, self.labels))
        self.note("save", lambda: model.save(f"{folder}/best/m"))
        before = model.predict_batch(x)
        model.train_batch(x, y)
        self.note("load", lambda: model.load(f"{folder}/best/m"))
        self.found["load"]["same"] = bool(
            np.allclose(model.predict_batch(x)[0], before[0], atol=1e-5)
        )
        self.note("next_step", lambda: model.train_batch(x, y))

    def _watched(self, model: Any, optimizer: Any, folder: str) -> None:
        callbacks = self.paddle.callbacks
        both = self.data(*self.inputs, *self.labels)
        stop = callbacks.EarlyStopping("loss", patience=1, verbose=1, min_delta=10.0)
        slow = callbacks.ReduceLROnPlateau("loss", 0.5, patience=1, verbose=1, min_delta=10.0)
        quick: dict[str, Any] = {"batch_size": 5, "verbose": 0, "shuffle": False}
        early = {**quick, "epochs": 6, "save_dir": f"{folder}/run"}
        self.note("early", lambda: model.fit(both, both, **early, callbacks=[stop]))
        files = [
            os.path.relpath(f"{root}/{name}", folder)
            for root, _, names in os.walk(folder)
            for name in names
        ]
        self.found["early"]["files"] = sorted(files)
        model.stop_training = False
        if not self.has_schedule:
            self.note("plateau", lambda: model.fit(both, both, **quick, epochs=3, callbacks=slow))
            self.found["plateau"]["rate"] = round(float(optimizer.get_lr()), 6)

    def _watcher(self) -> Any:
        """Return a callback that notes each call, with the values at the end of steps."""
        calls = self.calls

        def noting(name: str) -> Callable[..., None]:
            def note(self: Any, *args: Any) -> None:
                logs = [plain(a) for a in args if isinstance(a, dict) and "begin" not in name]
                calls.append([name, *(a for a in args if isinstance(a, int)), *logs])

            return note

        modes = ("train", "eval", "predict")
        whats = ["epoch", *modes, *(f"{mode}_batch" for mode in modes)]
        names = [f"on_{what}_{when}" for what in whats for when in ("begin", "end")]
        hooks = {name: noting(name) for name in names}
        return type("Watcher", (self.paddle.callbacks.Callback,), hooks)()


def plain(value: Any) -> Any:
    """Convert a value to JSON's types, rounded."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in sorted(value.items())}
    if isinstance(value, (np.ndarray, np.generic, float)):
        return np.round(np.asarray(value, "float64"), 4).tolist()
    return value


def masked(printed: str) -> str:
    """Replace times and folders in the output."""
    text = re.sub(r"\d+(us|ms|s)/step *", "T/step", printed.replace("\b", ""))
    return re.sub(r"(?<= at )/\S*?/(?=run/)", "FOLDER/", text)


NAMES = ("digits", "line", "text")

if __name__ == "__main__":
    import paddle

    paddle.enable_static()
    path, *names = sys.argv[1:]
    recorded: Found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            recorded = json.load(file)
    # a process each: in 2.6.2 the values that callbacks get have names of models before
    (name,) = names
    recorded[name] = Case(paddle, name).run()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(recorded, file)
        file.write("\n")
