"""The predictors of 1.8 (paddle.fluid.core): AnalysisConfig, PaddleTensor, PaddlePredictor."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from graphopt.inference.config import Config
from graphopt.inference.predictor import Predictor
from graphopt.inference.predictor import Tensor as ZeroCopyTensor


class PaddleDType(IntEnum):
    """The element types of a PaddleTensor."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2


class AnalysisConfig(Config):
    """The Config of 1.8; see `graphopt.inference.Config`."""


class NativeConfig:
    """A config with attributes for the model and the device only.

    The model is the folder `model_dir`, or the files `prog_file` and `param_file`; `device` is the
    number of the GPU if `use_gpu`, and `fraction_of_gpu_memory` has no effect.
    """

    def __init__(self) -> None:
        self.model_dir = self.prog_file = self.param_file = ""
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = 0.0

    def config(self) -> AnalysisConfig:
        """Convert the settings to an AnalysisConfig."""
        files = (self.prog_file, self.param_file) if self.prog_file else (self.model_dir,)
        made = AnalysisConfig(*files)
        if self.use_gpu:
            made.enable_use_gpu(device_id=self.device)
        return made


class PaddleTensor:
    """An array with a name, the operand and the result of `PaddlePredictor.run`."""

    def __init__(self, data: Any = None, name: str = "") -> None:
        self.name = name
        self.data = PaddleBuf(data)
        self.lod: list[list[int]] = []

    @property
    def shape(self) -> list[int]:
        """The sizes of the array; setting them reshapes it."""
        return list(self.data.array.shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self.data.array = self.data.array.reshape(shape)

    @property
    def dtype(self) -> PaddleDType:
        """The element type of the array; setting it converts the elements."""
        return PaddleDType[self.data.array.dtype.name.upper()]

    @dtype.setter
    def dtype(self, dtype: PaddleDType) -> None:
        self.data.array = self.data.array.astype(dtype.name.lower())

    def as_ndarray(self) -> np.ndarray[Any, Any]:
        """Return the array."""
        return self.data.array


class PaddleBuf:
    """The elements of a PaddleTensor."""

    def __init__(self, data: Any = None) -> None:
        self.array = np.array([] if data is None else data)

    def reset(self, data: Any) -> None:
        """Replace the elements."""
        self.array = np.array(data)

    def empty(self) -> bool:
        """Return whether there are no elements."""
        return self.array.size == 0

    def length(self) -> int:
        """Return the size of the elements in bytes."""
        return self.array.nbytes

    def tolist(self, dtype: str = "") -> list[Any]:
        """Return the elements in one list, cast to `dtype` (float32, int32 or int64) if set."""
        flat = self.array.reshape(-1)
        return (flat.astype(dtype) if dtype else flat).tolist()

    float_data = int32_data = int64_data = tolist


class PaddlePredictor(Predictor):
    """The Predictor of 1.8: `run` on PaddleTensors, or `zero_copy_run` on its handles."""

    def run(self, inputs: Sequence[Any] | None = None) -> Any:
        """Run on PaddleTensors, by their names or else in order, and return PaddleTensors."""
        if inputs is None:
            return super().run()
        names = self.get_input_names()
        by_name = all(tensor.name in names for tensor in inputs)
        for at, tensor in enumerate(inputs):
            handle = self.get_input_handle(tensor.name if by_name else names[at])
            handle.copy_from_cpu(tensor.as_ndarray())
            handle.set_lod(tensor.lod)
        super().run()
        return [self._output(name) for name in self.get_output_names()]

    def _output(self, name: str) -> PaddleTensor:
        handle = self.get_output_handle(name)
        made = PaddleTensor(handle.copy_to_cpu(), name)
        made.lod = handle.lod()
        return made

    def zero_copy_run(self) -> bool:
        """Run on the arrays of the input handles."""
        return super().run()

    def get_input_tensor(self, name: str) -> ZeroCopyTensor:
        """Return the input's handle, as `get_input_handle` does."""
        return self.get_input_handle(name)

    def get_output_tensor(self, name: str) -> ZeroCopyTensor:
        """Return the output's handle, as `get_output_handle` does."""
        return self.get_output_handle(name)


def create_paddle_predictor(config: AnalysisConfig | NativeConfig) -> PaddlePredictor:
    """Create the predictor of a config (fluid.core.create_paddle_predictor)."""
    return PaddlePredictor(config.config() if isinstance(config, NativeConfig) else config)
