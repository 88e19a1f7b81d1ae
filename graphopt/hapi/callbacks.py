"""Objects that a `paddle.Model` calls while it trains, evaluates, predicts (paddle.callbacks)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from graphopt.distributed.parallel import ParallelEnv
from graphopt.frontend.absent import absent
from graphopt.frontend.calls import publish
from graphopt.frontend.nest import as_list
from graphopt.hapi.progress_bar import ProgressBar
from graphopt.ir.program.location import caller_level
from graphopt.optimizer.lr import LRScheduler as Scheduler

Logs = dict[str, Any]
_TITLE = (
    "The loss value printed in the log is the current step, and the metric is the average value of "
    "previous steps."
)


class WatchedModel(Protocol):
    """The model, as callbacks use it."""

    stop_training: bool
    _optimizer: Any

    def save(self, path: str, training: bool = True) -> None:
        """Write the parameters and the state of the optimizer."""
        ...


class Callback:
    """The base class: every method does nothing (paddle.callbacks.Callback).

    `model.stop_training = True` ends the training after the epoch.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: Logs = {}

    def set_params(self, params: Logs) -> None:
        """Store batch_size, epochs, steps, verbose and metrics of the run."""
        self.params = params

    def set_model(self, model: WatchedModel) -> None:
        """Store the model."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Handle the start of training."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Handle the end of training."""

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        """Handle the start of an evaluation; `logs` has its steps and the names of its metrics."""

    def on_eval_end(self, logs: Logs | None = None) -> None:
        """Handle the end of an evaluation; `logs` has the loss and the metrics."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Handle the start of a prediction."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """Handle the end of a prediction."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Handle the start of an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Handle the end of an epoch."""

    def on_train_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Handle the start of a training step."""

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """Handle the end of a training step.

        `logs` has its loss, the metrics, `step` and `batch_size`.
        """

    def on_eval_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Handle the start of an evaluation step."""

    def on_eval_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """Handle the end of an evaluation step."""

    def on_predict_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Handle the start of a prediction step."""

    def on_predict_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """Handle the end of a prediction step."""


class Callbacks:
    """The callbacks of one run, called in their order."""

    def __init__(self, callbacks: Sequence[Callback], model: WatchedModel, params: Logs) -> None:
        self._callbacks = list(callbacks)
        for each in callbacks:
            each.set_model(model)
            each.set_params(params)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def call(self, name: str, *args: Any) -> None:
        """Call the method `on_NAME` of all callbacks."""
        for each in self._callbacks:
            getattr(each, f"on_{name}")(*args)


def with_usual(
    given: Any, *, verbose: int, log_freq: int, save_freq: int = 1, save_dir: str | None = None
) -> list[Callback]:
    """Add a progress bar, a checkpoint and a scheduler to callbacks that lack them."""
    found: list[Callback] = as_list(given)
    if verbose and not any(isinstance(each, ProgBarLogger) for each in found):
        found.insert(0, ProgBarLogger(log_freq, verbose))
    if not any(isinstance(each, ModelCheckpoint) for each in found):
        found.append(ModelCheckpoint(save_freq, save_dir))
    if not any(isinstance(each, LRScheduler) for each in found):
        found.append(LRScheduler())
    for each in found:
        if isinstance(each, EarlyStopping):
            each.save_dir = save_dir
    return found


def _is_first() -> bool:
    """True in the process that prints and saves."""
    return ParallelEnv().local_rank == 0


class _Phase:
    """A running epoch, evaluation or prediction, as a progress bar shows it."""

    def __init__(self, steps: int | None, metrics: Sequence[str], verbose: int) -> None:
        self.bar = ProgressBar(steps, verbose)
        self.steps, self.metrics, self.verbose = steps, metrics, verbose
        self.step = self.samples = 0
        self.last = time.time()
        self.reading = self.computing = 0.0
        self.since = self.since_samples = 0

    def begin(self) -> None:
        """Begin a step, and count the time since the last one as reading."""
        now = time.time()
        self.reading += now - self.last
        self.last = now

    def end(self, logs: Logs) -> None:
        """End a step, and count its time and its samples."""
        now = time.time()
        self.computing += now - self.last
        self.last = now
        self.step += 1
        self.since += 1
        count = logs.get("batch_size", 1)
        self.samples += count
        self.since_samples += count

    def show(self, logs: Logs) -> None:
        """Print the step and the values, and the cost of a step if it is requested."""
        values = [(name, logs[name]) for name in self.metrics if name in logs]
        if self.verbose == 3:
            count = self.since or 1
            speed = (self.since_samples or 1) / ((self.reading + self.computing) or 1)
            values += [
                ("avg_reader_cost", f"{self.reading / count:.5f} sec"),
                ("avg_batch_cost", f"{self.computing / count:.5f} sec"),
                ("ips", f"{speed:.5f} samples/sec"),
            ]
            self.reading = self.computing = 0.0
            self.since = self.since_samples = 0
        self.bar.update(self.step, values)


class ProgBarLogger(Callback):
    """Prints the progress (paddle.callbacks.ProgBarLogger).

    `verbose` is 0 for nothing, 1 for a bar, 2 for a line each `log_freq` steps, 3 for the cost of a
    step as well.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq, self.verbose = log_freq, verbose
        self._phase: _Phase

    def _prints(self) -> bool:
        return bool(self.verbose) and _is_first()

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if self._prints():
            print(_TITLE)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self._prints():
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._phase = _Phase(self.params["steps"], self.params["metrics"], self.verbose)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._prints() and self._phase.steps is not None:
            self._phase.show(logs or {})

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        self._start("Eval begin...", logs or {})

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._start("Predict begin...", logs or {})

    def _start(self, title: str, logs: Logs) -> None:
        self._phase = _Phase(logs.get("steps"), logs.get("metrics", []), self.verbose)
        if self._prints():
            print(title)

    def on_train_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        self._phase.begin()

    on_eval_batch_begin = on_predict_batch_begin = on_train_batch_begin

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        phase = self._phase
        phase.end(logs or {})
        is_last = phase.steps is not None and phase.step >= phase.steps
        if self._prints() and phase.step % self.log_freq == 0 and not is_last:
            phase.show(logs or {})
        phase.last = time.time()

    on_eval_batch_end = on_predict_batch_end = on_train_batch_end

    def on_eval_end(self, logs: Logs | None = None) -> None:
        if self._prints() and self._phase.steps is not None:
            self._phase.show(logs or {})
            print(f"Eval samples: {self._phase.samples}")

    def on_predict_end(self, logs: Logs | None = None) -> None:
        if self._prints():
            if self._phase.step % self.log_freq or self.verbose == 1:
                self._phase.show(logs or {})
            print(f"Predict samples: {self._phase.samples}")


class ModelCheckpoint(Callback):
    """Saves the model in `save_dir`, each `save_freq` epochs and at the end
    (paddle.callbacks.ModelCheckpoint)."""

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        self.save_freq, self.save_dir = save_freq, save_dir

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._save("final")

    def _save(self, name: str) -> None:
        if self.save_dir and self.model and _is_first():
            print(f"save checkpoint at {Path(self.save_dir, name).absolute()}")
            self.model.save(f"{self.save_dir}/{name}")


class LRScheduler(Callback):
    """Steps the schedule of the learning rate, by step or by epoch (paddle.callbacks.LRScheduler).

    ValueError for both.
    """

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        if by_step and by_epoch:
            raise ValueError("by_step option is mutually exclusive with by_epoch")
        super().__init__()
        self.by_step, self.by_epoch = by_step, by_epoch

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        if self.by_step:
            self._step()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.by_epoch:
            self._step()

    def _step(self) -> None:
        rate = getattr(self.model._optimizer, "_learning_rate", None)
        if isinstance(rate, Scheduler):
            rate.step()


class _Watcher(Callback):
    """Compares the loss or a metric of each evaluation with the best one so far."""

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            warnings.warn(
                f"{type(self).__name__}: the mode {mode!r} is none of auto, min and max; "
                "auto is taken",
                stacklevel=caller_level(),
            )
            mode = "auto"
        self.monitor, self.min_delta = monitor, abs(min_delta)
        self._is_max = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.best_value = self._worst()

    def _worst(self) -> float:
        return -np.inf if self._is_max else np.inf

    def _value(self, logs: Logs | None) -> float | None:
        """Get the watched number; return None and warn if it is missing."""
        if logs is None or self.monitor not in logs:
            names = [name for name in logs or {} if name not in ("step", "batch_size")]
            warnings.warn(
                f"{type(self).__name__}: there is no {self.monitor!r} to watch; the evaluation "
                f"gives {', '.join(names) or 'nothing'}",
                stacklevel=caller_level(),
            )
            return None
        found = logs[self.monitor]
        found = found[0] if isinstance(found, (list, tuple)) else found
        return found if isinstance(found, Number) else None  # type: ignore[return-value]

    def _improves(self, value: float) -> bool:
        if self._is_max:
            return value > self.best_value + self.min_delta
        return value < self.best_value - self.min_delta


class EarlyStopping(_Watcher):
    """Ends the training when evaluations improve no more (paddle.callbacks.EarlyStopping).

    With `save_best_model` the best model is kept as `best_model` in the `save_dir` of `fit`.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.save_best_model = save_best_model
        self.wait_epoch = self.stopped_epoch = 0
        self.save_dir: str | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait_epoch = 0
        self.best_value = self._worst() if self.baseline is None else self.baseline

    def on_eval_end(self, logs: Logs | None = None) -> None:
        value = self._value(logs)
        if value is None:
            return
        best = Path(self.save_dir, "best_model") if self.save_dir and self.save_best_model else None
        if self._improves(value):
            self.best_value, self.wait_epoch = value, 0
            if best is not None:
                self.model.save(str(best))
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if best is not None:
                    print(f"Best checkpoint has been saved at {best.absolute()}")
        self.stopped_epoch += 1


class ReduceLROnPlateau(_Watcher):
    """Multiplies the learning rate by `factor` when evaluations improve no more
    (paddle.callbacks.ReduceLROnPlateau).

    It is for a learning rate that is a number. ValueError for a factor of 1 or more.
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self.cooldown_counter = self.wait = self.epoch = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best_value = self._worst()
        self.cooldown_counter = self.wait = 0

    def on_eval_end(self, logs: Logs | None = None) -> None:
        value = self._value(logs)
        optimizer = self.model._optimizer
        if value is None:
            return
        if not isinstance(optimizer._learning_rate, (int, float)):
            warnings.warn(
                "ReduceLROnPlateau is for a learning rate that is a number, and the optimizer has "
                f"a {type(optimizer._learning_rate).__name__}; use one of the two",
                stacklevel=caller_level(),
            )
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self._improves(value):
            self.best_value, self.wait = value, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience and optimizer.get_lr() > self.min_lr:
                self._reduce(optimizer)
        self.epoch += 1

    def _reduce(self, optimizer: Any) -> None:
        rate = max(optimizer.get_lr() * self.factor, self.min_lr)
        optimizer.set_lr(rate)
        if self.verbose > 0 and _is_first():
            print(f"\nEpoch {self.epoch + 1}: ReduceLROnPlateau reducing learning rate to {rate}.")
        self.cooldown_counter, self.wait = self.cooldown, 0

    def in_cooldown(self) -> bool:
        """True in the evaluations after a change that do not count."""
        return self.cooldown_counter > 0


def _for_a_package(name: str, package: str) -> Any:
    words = f"paddle.callbacks.{name} writes for {package}, which graphopt does not use. "
    return absent(name, words + "Instead: a paddle.callbacks.Callback that logs `logs`")


_PACKAGES: Mapping[str, str] = {"VisualDL": "VisualDL", "WandbCallback": "Weights & Biases"}
VisualDL, WandbCallback = (_for_a_package(*pair) for pair in _PACKAGES.items())

publish(globals(), __name__)
