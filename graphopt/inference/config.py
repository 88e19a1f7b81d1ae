"""Config: which model a predictor runs, and where (paddle.inference.Config)."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from graphopt.errors import OperandError
from graphopt.runtime.devices.places import CPUPlace, CUDAPlace, Place


class PrecisionType(IntEnum):
    """The precisions of a predictor (paddle.inference.PrecisionType)."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


class PlaceType(IntEnum):
    """The kinds of device of a tensor (paddle.inference.PlaceType)."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 4


class DataType(IntEnum):
    """The element types of a tensor (paddle.inference.DataType)."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7


_PASSES = "the passes for the device always run; FLAGS_graphopt_without leaves some out"
_XLA = "XLA compiles the whole program for the device"
_MEMORY = "XLA plans the memory of the whole program"
_LIBRARY = "there is no such library here"
_PRECISION = "the program runs in the precision that it was saved with"
_LOG = "there is no log to turn off"
_NAMES = "inputs are always given by name or in order"

# Method of Config that sets an option -> the option, its value without arguments, and the reason
# why it has no effect here. `summary()` shows them.
WITHOUT_EFFECT: dict[str, tuple[str, Any, str]] = {
    "collect_shape_range_info": ("collect_shape_range_info", True, _LIBRARY),
    "disable_glog_info": ("enable_log", False, _LOG),
    "disable_mkldnn": ("enable_mkldnn", False, _XLA),
    "disable_mkldnn_fc_passes": ("enable_mkldnn_fc_passes", False, _XLA),
    "enable_low_precision_io": ("enable_low_precision_io", True, _PRECISION),
    "enable_memory_optim": ("memory_optim", True, _MEMORY),
    "enable_mkldnn": ("enable_mkldnn", True, _XLA),
    "enable_mkldnn_bfloat16": ("enable_mkldnn_bfloat16", True, _PRECISION),
    "enable_mkldnn_int8": ("enable_mkldnn_int8", True, _PRECISION),
    "enable_new_executor": ("enable_new_executor", True, "there is one executor"),
    "enable_new_ir": ("enable_new_ir", True, "every program becomes one dialect"),
    "enable_onnxruntime": ("enable_onnxruntime", True, _LIBRARY),
    "disable_onnxruntime": ("enable_onnxruntime", False, _LIBRARY),
    "enable_ort_optimization": ("enable_ort_optimization", True, _LIBRARY),
    "enable_profile": ("enable_profile", True, "jax.profiler measures a process"),
    "enable_quantizer": ("enable_quantizer", True, "saved quantised models run as they are"),
    "enable_tensorrt_dla": ("tensorrt_dla", True, _LIBRARY),
    "enable_tensorrt_engine": ("use_tensorrt", True, _LIBRARY),
    "enable_tensorrt_memory_optim": ("tensorrt_memory_optim", True, _LIBRARY),
    "enable_tensorrt_oss": ("tensorrt_oss", True, _LIBRARY),
    "enable_tensorrt_varseqlen": ("tensorrt_varseqlen", True, _LIBRARY),
    "enable_tuned_tensorrt_dynamic_shape": ("tuned_tensorrt_shapes", True, _LIBRARY),
    "enable_lite_engine": ("use_lite", True, _LIBRARY),
    "exp_disable_tensorrt_ops": ("tensorrt_ops_left_out", True, _LIBRARY),
    "set_bfloat16_op": ("bfloat16_ops", True, _PRECISION),
    "set_mkldnn_cache_capacity": ("mkldnn_cache_capacity", 0, _XLA),
    "set_mkldnn_op": ("mkldnn_ops", True, _XLA),
    "set_optim_cache_dir": ("optim_cache_dir", "", "FLAGS_graphopt_cache_dir names the cache"),
    "set_tensorrt_optimization_level": ("tensorrt_level", 3, _LIBRARY),
    "set_trt_dynamic_shape_info": ("tensorrt_shapes", True, _LIBRARY),
    "switch_ir_debug": ("ir_debug", True, "`model.explain()` reports the passes"),
    "switch_ir_optim": ("ir_optim", True, _PASSES),
    "switch_specify_input_names": ("specify_input_name", True, _NAMES),
    "switch_use_feed_fetch_ops": ("use_feed_fetch_ops", True, _NAMES),
}

# method of Config that returns an option -> the option, and its default
QUERIES: dict[str, tuple[str, Any]] = {
    "glog_info_disabled": ("log_disabled", True),
    "ir_optim": ("ir_optim", True),
    "mkldnn_enabled": ("enable_mkldnn", False),
    "onnxruntime_enabled": ("enable_onnxruntime", False),
    "specify_input_name": ("specify_input_name", True),
    "tensorrt_engine_enabled": ("use_tensorrt", False),
    "use_feed_fetch_ops_enabled": ("use_feed_fetch_ops", False),
}


class Config:
    """The model and the device of a predictor.

    `Config(folder)` has a folder with one model, `Config(program, parameters)` its two files. The
    model and the device are obeyed. Most other settings control parts of Paddle's engine that
    graphopt lacks: they are kept, and `summary()` explains for each why it has no effect. Raises
    OperandError for a setting that Paddle does not have either. Paddle page:
    paddle.inference.Config.
    """

    Precision = PrecisionType

    def __init__(self, *files: str | os.PathLike[str]) -> None:
        self._folder = self._program = self._parameters = ""
        self._buffers: tuple[bytes, bytes] | None = None
        self._gpu: int | None = None
        self.threads = 0
        self._deleted: list[str] = []
        self._set: dict[str, Any] = {}
        if files:
            self.set_model(*files)

    def set_model(self, *files: str | os.PathLike[str]) -> None:
        """Set the folder of the model, or its program file and its parameter file."""
        paths = [os.fspath(file) for file in files]
        if len(paths) == 1:
            (self._folder,) = paths
        elif len(paths) == 2:
            self._program, self._parameters = paths
        else:
            raise OperandError(f"set_model(): expected a folder or two files, found {len(paths)}")

    def set_prog_file(self, path: str) -> None:
        """Set the program file."""
        self._program = os.fspath(path)

    def set_params_file(self, path: str) -> None:
        """Set the parameter file."""
        self._parameters = os.fspath(path)

    def set_model_buffer(
        self, program: bytes, program_size: int, params: bytes, params_size: int
    ) -> None:
        """Set the contents of the two files."""
        self._buffers = program[:program_size], params[:params_size]

    def model_dir(self) -> str:
        """Return the folder of the model."""
        return self._folder

    def prog_file(self) -> str:
        """Return the program file."""
        return self._program

    def params_file(self) -> str:
        """Return the parameter file."""
        return self._parameters

    def model_from_memory(self) -> bool:
        """True if the model was set as contents of files."""
        return self._buffers is not None

    def enable_use_gpu(
        self, memory_pool_init_size_mb: int = 100, device_id: int = 0, *precision: Any
    ) -> None:
        """Run on this GPU; the size of the pool and the precision have no effect."""
        self._gpu = device_id
        self._set["memory_pool_init_size_mb"] = memory_pool_init_size_mb

    def disable_gpu(self) -> None:
        """Run on the CPU."""
        self._gpu = None

    def use_gpu(self) -> bool:
        """True if a GPU was chosen."""
        return self._gpu is not None

    def gpu_device_id(self) -> int:
        """Return the number of the GPU."""
        return self._gpu or 0

    def memory_pool_init_size_mb(self) -> int:
        """Return the pool size of `enable_use_gpu`, which has no effect."""
        return self._set.get("memory_pool_init_size_mb", 100)

    def fraction_of_gpu_memory_for_pool(self) -> float:
        """Return 0: XLA plans the memory."""
        return 0.0

    def place(self) -> Place:
        """Return the device of the predictor."""
        return CPUPlace() if self._gpu is None else CUDAPlace(self._gpu)

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """Limit the CPU threads of the whole process, as in Paddle.

        The limit holds from the creation of the predictor on. XLA fixes its threads at the first
        run of the process: a later limit applies only to computations in NumPy, and warns.
        """
        self.threads = cpu_math_library_num_threads

    def cpu_math_library_num_threads(self) -> int:
        """Return the thread limit that was set, else Paddle's default of 1, which is not obeyed."""
        return self.threads or 1

    def delete_pass(self, name: str) -> None:
        """Record the name of one of Paddle's passes, which graphopt does not have."""
        self._deleted.append(name)

    def pass_builder(self) -> Config:
        """Return this Config, which has `delete_pass`."""
        return self

    def summary(self) -> str:
        """Format a table of every option that was set, its value, and whether it is obeyed."""
        obeyed = {
            "model_dir": self._folder,
            "model_file": self._program,
            "params_file": self._parameters,
            "use_gpu": str(self.use_gpu()).lower(),
            "gpu_device_id": "" if self._gpu is None else str(self._gpu),
            "cpu_math_thread": str(self.threads or ""),
        }
        rows = [(name, value, "obeyed") for name, value in obeyed.items() if value]
        reasons = {option: why for option, _, why in WITHOUT_EFFECT.values()}
        for option, value in self._set.items():
            why = reasons.get(option, _MEMORY)
            rows.append((option, _show_value(value), f"no effect: {why}"))
        rows += [("delete_pass", name, f"no effect: {_PASSES}") for name in self._deleted]
        rows.insert(0, ("Option", "Value", "Effect"))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
        lines = [
            "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
            for row in rows
        ]
        return "\n".join([rule, lines[0], rule, *lines[1:], rule])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in WITHOUT_EFFECT:
            option, default, _ = WITHOUT_EFFECT[name]

            def set_option(*args: Any, **kwargs: Any) -> None:
                given = (*args, *kwargs.values())
                alone = given[0] if len(given) == 1 else given
                self._set[option] = alone if given and default is not False else default

            return set_option
        if name in QUERIES:
            option, before = QUERIES[name]
            return lambda: self._set.get(option, before)
        raise AttributeError(f"Config has no setting '{name}'", name=name, obj=self)


def _show_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
