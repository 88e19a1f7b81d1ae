"""`paddle.Model`: a network of layers with its loss, optimizer and metrics, and loops over data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.distributed.parallel import ParallelEnv
from graphopt.errors import UnsupportedError
from graphopt.frontend.calls import publish
from graphopt.frontend.framework_io import load, save
from graphopt.frontend.nest import as_list
from graphopt.hapi.callbacks import Callbacks, EarlyStopping, Logs, with_usual
from graphopt.hapi.programs import EVAL, PREDICT, TRAIN, ModelPrograms, ModelRecipe, current
from graphopt.io.batch_sampler import DistributedBatchSampler
from graphopt.io.dataset import Dataset
from graphopt.io.loader import DataLoader
from graphopt.ir.program.location import caller_level
from graphopt.metric import Metric
from graphopt.nn.layer.layers import Layer
from graphopt.static.input import InputSpec
from graphopt.static.io import save_inference_model
from graphopt.utils.layers_utils import flatten

_LEVELS = ("O0", "O1", "O2")
_LISTS = ("custom_white_list", "custom_black_list", "custom_black_varnames")
_SCALING = frozenset(
    (
        *("init_loss_scaling", "incr_ratio", "decr_ratio", "incr_every_n_steps"),
        *("decr_every_n_nan_or_inf", "use_dynamic_loss_scaling", "use_fp16_guard"),
    )
)


class Model:
    """A network that trains, evaluates and predicts (Paddle page: paddle.Model).

    `inputs` are named InputSpecs for the arguments of `network.forward`, `labels` for the arguments
    of the loss after the outputs. `prepare` builds the programs in static mode; they run like any
    program of an Executor.
    """

    def __init__(self, network: Layer, inputs: Any = None, labels: Any = None) -> None:
        if inputs is None:
            raise TypeError(
                "'inputs' must be list or dict, and couldn't be None. Give the shapes of what the "
                "network takes, such as inputs=[InputSpec([None, 784], 'float32', 'image')], and "
                "those of the labels so, too"
            )
        self.network = network
        self.mode = TRAIN
        self.stop_training = False
        self._inputs = _specs(inputs, "inputs")
        self._labels = _specs(labels, "labels")
        self._optimizer: Any = None
        self._loss: Any = None
        self._metrics: list[Metric] = []
        self._base = current()
        self._programs: ModelPrograms | None = None

    # -- preparation -------------------------------------------------------------------------------

    def prepare(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None
    ) -> None:
        """Build the programs.

        `amp_configs` is O1 or O2, or a dict with `level` and options of `static.amp.decorate`.
        Raises TypeError for a loss that is not callable, or a metric that is not a Metric.
        """
        if loss is not None and not callable(loss):
            raise TypeError(
                "'loss' must be sub classes of `paddle.nn.Layer` or any callable function."
            )
        for metric in as_list(metrics):
            if not isinstance(metric, Metric):
                raise TypeError(f"{type(metric).__name__} is not sub class of Metric")
        if ParallelEnv().nranks > 1:
            raise UnsupportedError(
                "paddle.Model trains in one process; for several use fleet.distributed_optimizer "
                "and static.Executor.run, or CompiledProgram.with_data_parallel on the devices of "
                "one"
            )
        self._optimizer, self._loss, self._metrics = optimizer, loss, as_list(metrics)
        recipe = ModelRecipe(
            *(self.network, self._inputs, self._labels, optimizer, loss, self._metrics),
            _amp(amp_configs),
        )
        if self._programs is None:
            self._programs = ModelPrograms(recipe, *self._base)
            self._optimizer = self._programs.optimizer

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the parameters of the network."""
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> Mapping[str, Any]:
        """Print the layers as `paddle.summary` does, and return the numbers of parameters."""
        from graphopt.debug.summary import summary

        return summary(self.network, input_size or list(self._inputs), dtype)

    # -- one batch ---------------------------------------------------------------------------------

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Run a training step; return the losses, or with metrics (losses, metrics so far).

        UnsupportedError for `update=False`, AssertionError before `prepare` with an optimizer.
        """
        assert self._optimizer, "model not ready, please call `model.prepare()` first"
        if update is not True:
            raise UnsupportedError(
                "a step always updates in static mode (update=False, accumulate_grad_batches); "
                "use fleet's gradient_merge, or a larger batch"
            )
        return self._batch(TRAIN, inputs, labels)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Run an evaluation step; return the losses, or with metrics (losses, metrics so far)."""
        return self._batch(EVAL, inputs, labels)

    def predict_batch(self, inputs: Any) -> list[Any]:
        """Compute the outputs for a batch."""
        self.mode = "test"
        return self._ready().run(PREDICT, as_list(inputs), None)

    def _batch(self, mode: str, inputs: Any, labels: Any) -> Any:
        self.mode = mode
        programs = self._ready()
        found = programs.run(mode, as_list(inputs), as_list(labels))
        made = programs.by_mode[mode]
        losses, rest = found[: len(made.losses)], iter(found[len(made.losses) :])
        metrics = [
            metric.update(*[next(rest) for _ in values])
            for metric, values in zip(self._metrics, made.metrics, strict=True)
        ]
        return (losses, metrics) if losses and metrics else losses or metrics

    def _ready(self) -> ModelPrograms:
        assert self._programs, "Model is not ready, please call `model.prepare()` first"
        return self._programs

    # -- loops -------------------------------------------------------------------------------------

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int | Sequence[int] = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train for some epochs, and evaluate after each `eval_freq` of them.

        Data are a Dataset, a DataLoader, or an iterable over batches of inputs and labels. At most
        `num_iters` steps run. Raises the errors of `train_batch`.
        """
        assert train_data is not None, "train_data must be given!"
        sizes = (batch_size, batch_size) if isinstance(batch_size, int) else tuple(batch_size)
        assert len(sizes) == 2, "batch_size length error, expected train and eval batch size."
        batches = _loader(train_data, sizes[0], num_workers, shuffle=shuffle, drop_last=drop_last)
        evaluated = None if eval_data is None else _loader(eval_data, sizes[1], num_workers)
        steps = _length(batches)
        if num_iters is not None and steps is not None:
            assert num_iters > 0, "num_iters must be greater than 0!"
            epochs, steps = num_iters // steps + 1, min(num_iters, steps)
        names = self._names()
        called = self._make_callbacks(
            with_usual(
                callbacks,
                verbose=verbose,
                log_freq=log_freq,
                save_freq=save_freq,
                save_dir=save_dir,
            ),
            epochs=epochs,
            steps=steps,
            verbose=verbose,
            metrics=names,
        )
        if evaluated is None and any(isinstance(each, EarlyStopping) for each in called):
            warnings.warn("EarlyStopping needs validation data.", stacklevel=caller_level())
        self.stop_training, left, logs = False, num_iters, Logs()
        called.call("train_begin", None)
        for epoch in range(epochs):
            called.call("epoch_begin", epoch, None)
            logs = self._epoch(batches, called, TRAIN, left, accumulate_grad_batches)
            left = None if left is None else left - logs["step"] - 1
            called.call("epoch_end", epoch, logs)
            if evaluated is not None and epoch % eval_freq == 0:
                logs |= self._evaluate(evaluated, called, names, None)
            if self.stop_training or (left is not None and left <= 0):
                break
        called.call("train_end", logs)

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> Logs:
        """Evaluate over all data; return the last loss, and the metrics, by name."""
        batches, names = _loader(eval_data, batch_size, num_workers), self._names()
        assert num_iters is None or num_iters > 0, "num_iters must be greater than 0!"
        called = self._make_callbacks(
            with_usual(callbacks, verbose=verbose, log_freq=log_freq),
            verbose=verbose,
            metrics=names,
        )
        logs = self._evaluate(batches, called, names, num_iters)
        return {name: logs[name] for name in names}

    def _evaluate(
        self, batches: Any, called: Callbacks, names: list[str], most: int | None
    ) -> Logs:
        steps = _length(batches)
        steps = min(steps, most) if steps is not None and most is not None else steps
        called.call("eval_begin", {"steps": steps, "metrics": names})
        logs = self._epoch(batches, called, EVAL, most)
        called.call("eval_end", logs)
        return logs

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """Predict all data; for each output return its batches, or one array if `stack_outputs`."""
        batches = _loader(test_data, batch_size, num_workers)
        called = self._make_callbacks(
            with_usual(callbacks, verbose=verbose, log_freq=2), verbose=verbose
        )
        called.call("predict_begin", {"steps": _length(batches)})
        outputs: list[list[Any]] = []
        logs = self._epoch(batches, called, PREDICT, None, outputs=outputs)
        by_output = list(zip(*outputs, strict=True))
        called.call("predict_end", logs)
        return [np.vstack(each) for each in by_output] if stack_outputs else by_output

    def _make_callbacks(self, callbacks: Sequence[Any], **params: Any) -> Callbacks:
        usual = {"batch_size": None, "epochs": None, "steps": None, "metrics": []}
        return Callbacks(callbacks, self, {**usual, **params})

    def _epoch(
        self,
        batches: Iterable[Any],
        called: Callbacks,
        mode: str,
        most: int | None,
        accumulate: int = 1,
        outputs: list[list[Any]] | None = None,
    ) -> Logs:
        """Run over the data once, at most `most` steps; return the values of the last step."""
        logs, length = Logs(), _length(batches)
        for step, batch in enumerate(batches):
            columns = [np.asarray(each) for each in flatten(batch)]
            inputs = columns[: len(self._inputs)]
            called.call(f"{mode}_batch_begin", step, logs)
            if mode == PREDICT:
                assert outputs is not None
                outputs.append(self.predict_batch(inputs))
            else:
                is_last = step + 1 == length
                update = (step + 1) % accumulate == 0 or is_last
                labels = columns[len(self._inputs) :]
                logs |= self._measure(
                    self.train_batch(inputs, labels, update)
                    if mode == TRAIN
                    else self.eval_batch(inputs, labels)
                )
            logs |= {"step": step, "batch_size": len(columns[0]) if columns[0].ndim else 1}
            called.call(f"{mode}_batch_end", step, logs)
            if most is not None and step + 1 >= most:
                break
        for metric in self._metrics:
            metric.reset()
        return logs

    def _measure(self, found: Any) -> Logs:
        """Map the names of the loss and the metrics to the step's loss and the metrics so far."""
        losses = found[0] if self._metrics and self._loss else found
        values: list[Any] = [[float(loss) for loss in losses]] if self._loss else []
        for metric in self._metrics:
            values += as_list(metric.accumulate())
        return dict(zip(self._names(), values, strict=True))

    def _names(self) -> list[str]:
        names = ["loss"] if self._loss else []
        return names + [name for metric in self._metrics for name in as_list(metric.name())]

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str, training: bool = True) -> None:
        """Write `path.pdparams` and `path.pdopt`, or without `training` an inference model.

        ValueError for a path without a file name.
        """
        if not os.path.basename(path):
            raise ValueError("path should be of 'dirname/filename' format")
        if not training:
            made = self._ready().by_mode[PREDICT]
            save_inference_model(
                path,
                list(made.inputs),
                list(made.outputs),
                self._ready().executor,
                program=made.program,
            )
            return
        state = self.network.state_dict()
        save({name: value.numpy() for name, value in state.items()}, f"{path}.pdparams")
        if self._programs is not None and self._optimizer is not None:
            kept = self._programs.optimizer_state()
            if kept:
                save(kept, f"{path}.pdopt")

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Read the files that `save` wrote.

        ValueError for a parameter that is missing or has another shape. With `skip_mismatch` it
        warns instead, and leaves the parameter and the optimizer unchanged.
        """
        stem, suffix = os.path.splitext(path)
        if suffix not in ("", ".pdparams", ".pdopt", ".pdmodel"):
            stem = path
        state = load(f"{stem}.pdparams", return_numpy=True)
        for name, parameter in self.network.state_dict().items():
            problem = _mismatch(name, state.get(name), parameter)
            if not problem:
                parameter.set_value(state[name])
            elif skip_mismatch:
                warnings.warn(f"Skip loading for {name}. {problem}", stacklevel=caller_level())
                reset_optimizer = True
            else:
                raise ValueError(problem)
        kept = Path(f"{stem}.pdopt")
        if self._programs is not None and not reset_optimizer and kept.exists():
            self._programs.set_optimizer_state(load(str(kept), return_numpy=True))


def _mismatch(name: str, value: Any, parameter: Any) -> str:
    """Explain why a value does not fit a parameter; empty if it fits."""
    if value is None:
        return f"{name} is not found in the providing file."
    if list(value.shape) != list(parameter.shape):
        return (
            f"{name} receives a shape {list(value.shape)}, but the expected shape is "
            f"{list(parameter.shape)}."
        )
    return ""


def _specs(given: Any, what: str) -> list[InputSpec]:
    """Convert InputSpecs to a list; each needs a name."""
    found = list(given.values()) if isinstance(given, dict) else as_list(given)
    for index, spec in enumerate(found):
        if not isinstance(spec, InputSpec):
            raise TypeError(f"'{what}' should be InputSpecs, found {type(spec).__name__}")
        if spec.name is None:
            raise ValueError(
                f"Requires Input[{index}].name != None, but receive `None` with {spec}."
            )
    return found


def _amp(given: Any) -> dict[str, Any] | None:
    """Parse `amp_configs` to its level and options; None for level O0.

    Raises ValueError for an unknown level or option.
    """
    options = {"level": given} if isinstance(given, str) else dict(given or {"level": "O0"})
    level = options.pop("level", "O1")
    if level not in _LEVELS:
        raise ValueError(f"amp_configs['level'] should be 'O0', 'O1' or 'O2', found {level!r}")
    lists = {name: options.pop(name) for name in _LISTS if name in options}
    unknown = options.keys() - _SCALING
    if unknown:
        raise ValueError(
            f"amp_configs has no {', '.join(sorted(unknown))}; with 'level' it takes "
            f"{', '.join((*_LISTS, *sorted(_SCALING)))}"
        )
    return None if level == "O0" else {"level": level, "lists": lists, **options}


def _loader(
    given: Any, batch_size: int, workers: int, *, shuffle: bool = False, drop_last: bool = False
) -> Any:
    """Wrap a Dataset in a DataLoader; return any other iterable unchanged."""
    if not isinstance(given, Dataset):
        return given
    sampler = DistributedBatchSampler(
        given, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last
    )
    return DataLoader(given, batch_sampler=sampler, num_workers=workers, return_list=True)


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except (TypeError, NotImplementedError):
        return None


publish(globals(), __name__)
