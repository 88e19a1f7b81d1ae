"""Predictor: runs a saved model on arrays (paddle.inference)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphopt.errors import FeedError
from graphopt.frontend.lod_tensor import LoDTensor, lengths_between
from graphopt.frontend.version import version
from graphopt.inference.config import Config, DataType
from graphopt.models.model import ImportedModel, has_parameters, read_model
from graphopt.runtime.devices.threads import limit_threads
from graphopt.runtime.executor import Executor
from graphopt.runtime.feeds.feed import as_array
from graphopt.runtime.state.slots import Tensor as Fetched

Array = np.ndarray[Any, Any]


class Tensor:
    """An input or an output of a predictor (Paddle page: paddle.inference.Tensor)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._value: Array | None = None
        self._shape: list[int] = []
        self._lod: list[list[int]] = []

    def name(self) -> str:
        """Return the name of the variable."""
        return self._name

    def reshape(self, shape: Sequence[int]) -> None:
        """Set the shape; reshape a value copied before, if it has as many elements."""
        self._shape = [int(size) for size in shape]
        if self._value is not None and self._value.size == int(np.prod(self._shape)):
            self._value = self._value.reshape(self._shape)

    def copy_from_cpu(self, data: Any) -> None:
        """Copy an array in. Raises TypeError for another type, FeedError for uneven rows."""
        if not isinstance(data, (np.ndarray, list, tuple)):
            raise TypeError(
                "In copy_from_cpu, we only support numpy ndarray data type, found "
                f"{type(data).__name__}"
            )
        try:
            self._value = np.array(data)
        except ValueError as error:
            raise FeedError(
                f"the value of '{self._name}' is not an array; give rows of equal lengths: {error}"
            ) from None
        self._shape = list(self._value.shape)

    def share_external_data(self, data: Any) -> None:
        """Copy an array in, or a LoDTensor with its sequences."""
        sequences = getattr(data, "lod", None)  # only a LoDTensor has sequences
        self.copy_from_cpu(data if sequences is None else np.asarray(data))
        if sequences is not None:
            self.set_lod(sequences())

    def copy_to_cpu(self) -> Array:
        """Copy the value to a new array; FeedError if there is none."""
        return self._array().copy()

    def shape(self) -> list[int]:
        """Return the shape of the value, or the shape that `reshape` set."""
        return list(self._shape)

    def type(self) -> DataType:
        """Return the element type; FeedError if there is no value."""
        return DataType[self._array().dtype.name.upper()]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set where the sequences in the value begin, level by level."""
        self._lod = [list(level) for level in lod]

    def lod(self) -> list[list[int]]:
        """Return the offsets at which the sequences in the value begin, level by level."""
        return self._lod

    def _array(self) -> Array:
        if self._value is None:
            raise FeedError(f"'{self._name}' has no value: copy_from_cpu() an input, run() first")
        return self._value

    def _feed(self) -> Any:
        if not self._lod:
            return self._array()
        return LoDTensor(self._array(), [lengths_between(level) for level in self._lod])

    def _take(self, fetched: Fetched) -> None:
        self._value = np.asarray(fetched)
        self._shape = list(self._value.shape)
        self._lod = fetched.lod()


class Predictor:
    """A saved model that runs on the arrays of its input handles.

    Inputs of many sizes are padded to a few (docs/how-to/many-sizes.md and FLAGS_graphopt_buckets).
    `clone()` creates a predictor for another thread: parameters are shared, handles are not. Raises
    the errors of `import_model` and `Executor.run`. Paddle page: paddle.inference.Predictor.
    """

    def __init__(self, config: Config, model: ImportedModel | None = None) -> None:
        self._config = config
        if model is None and config.threads:
            limit_threads(config.threads)
        self._model = _read(config) if model is None else model
        self._executor = Executor(config.place(), buckets=self._model.buckets)
        self._executor._runner.pads_inference = True
        self._inputs = {name: Tensor(name) for name in self._model.feed_names}
        self._outputs = {name: Tensor(name) for name in self._model.fetch_names}

    def get_input_names(self) -> list[str]:
        """List the names of the inputs, in order."""
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """List the names of the outputs, in order; a variable that is two outputs occurs twice."""
        return list(self._model.fetch_names)

    def get_input_handle(self, name: str) -> Tensor:
        """Return the input of this name; FeedError if there is none."""
        return _handle(self._inputs, name, "input")

    def get_output_handle(self, name: str) -> Tensor:
        """Return the output of this name, with a value after a run; FeedError if there is none."""
        return _handle(self._outputs, name, "output")

    def run(self, inputs: Sequence[Any] | None = None) -> Any:
        """Run the model on its input handles, and return True; or on arrays, and return arrays."""
        if inputs is not None:
            block = self._model.program.global_block()
            for name, value in self._model.feed(list(inputs)).items():
                variable = block.var(name)
                self._inputs[name].copy_from_cpu(np.asarray(as_array(variable, value)))
        feed = {name: tensor._feed() for name, tensor in self._inputs.items()}
        names = list(self._outputs)
        model = self._model
        run = self._executor.run
        fetched = run(model.program, feed, names, scope=model.scope, return_numpy=False)
        for name, value in zip(names, fetched, strict=True):
            assert isinstance(value, Fetched)
            self._outputs[name]._take(value)
        if inputs is None:
            return True
        return [self._outputs[name].copy_to_cpu() for name in self.get_output_names()]

    def clone(self) -> Predictor:
        """Create a predictor with its own handles and the same parameters."""
        return type(self)(self._config, self._model)

    def clear_intermediate_tensor(self) -> None:
        """Do nothing: intermediate tensors do not outlive a run."""

    def try_shrink_memory(self) -> int:
        """Return 0, the number of freed bytes: nothing is held between runs."""
        return 0


def _handle(handles: dict[str, Tensor], name: str, kind: str) -> Tensor:
    if name not in handles:
        raise FeedError(f"the model has no {kind} '{name}'; it has {', '.join(handles) or 'none'}")
    return handles[name]


def _read(config: Config) -> ImportedModel:
    if config._buffers is not None:
        with TemporaryDirectory() as folder:
            program, parameters = Path(folder, "model.pdmodel"), Path(folder, "model.pdiparams")
            program.write_bytes(config._buffers[0])
            parameters.write_bytes(config._buffers[1])
            return read_model(program, parameters)
    if config.prog_file():
        program, given = config.prog_file(), config.params_file() or None
        if given and not Path(given).exists() and not has_parameters(program):
            given = None  # Paddle 3 then writes no file of parameters, and accepts its absence
        return read_model(program, given)
    return read_model(config.model_dir())


def create_predictor(config: Config) -> Predictor:
    """Create the predictor of a Config (paddle.inference.create_predictor)."""
    return Predictor(config)


class PredictorPool:
    """Several predictors of one model, a thread each (paddle.inference.PredictorPool)."""

    def __init__(self, config: Config, size: int) -> None:
        first = Predictor(config)
        self._all = [first, *(first.clone() for _ in range(size - 1))]

    def retrieve(self, index: int) -> Predictor:
        """Return the predictor with this number."""
        return self._all[index]

    retrive = retrieve  # Paddle's spelling


def get_version() -> str:
    """Return the version of this package (paddle.inference.get_version)."""
    return f"version: {version()}\n"


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """Return the size of an element in bytes (paddle.inference.get_num_bytes_of_data_type)."""
    return np.dtype(dtype.name.lower()).itemsize


def get_trt_compile_version() -> tuple[int, int, int]:
    """Return (0, 0, 0): there is no TensorRT here, as in Paddle built without it."""
    return 0, 0, 0


def get_trt_runtime_version() -> tuple[int, int, int]:
    """Return (0, 0, 0), as `get_trt_compile_version` does."""
    return 0, 0, 0
