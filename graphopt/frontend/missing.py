"""Advice for public names of Paddle that graphopt lacks.

`public_names.txt` lists the public names of Paddle 1.8.5, 2.6.2 and 3.3.1, and `paddle_modules.txt`
the modules of 1.8.5 and 2.6.2; scripts in `tests/frontend` record them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

_RECORD = Path(__file__).with_name("public_names.txt")
_MODULES = Path(__file__).with_name("paddle_modules.txt")
_ROOT = __name__.partition(".")[0]
_DYNAMIC = "graphopt runs static programs only"
_DATA_PARALLEL = "static.CompiledProgram(program).with_data_parallel(loss_name), over all trainers"
_FEED = "paddle.io.DataLoader, or arrays that a Python generator feeds"
_QUANTISED = "saved quantised models are read without conversion"

# missing modules of Paddle -> their replacements
MODULES: Mapping[str, str] = {
    "paddle.audio": "compute features with NumPy or librosa, and feed them",
    "paddle.compat.nn": "the layers of paddle.nn",
    "paddle.complex": "paddle.complex(real, imag) and the functions of paddle",
    "paddle.cuda": "paddle.device",
    "paddle.dataset.mq2007": "a paddle.io.Dataset that reads its files",
    "paddle.dataset.sentiment": "paddle.dataset.imdb",
    "paddle.device.custom_device": "paddle.set_device",
    "paddle.device.default_backend": "paddle.set_device",
    "paddle.device.gpgpu_backend": "paddle.set_device",
    "paddle.device.xpu": "paddle.CPUPlace or paddle.CUDAPlace: JAX has no backend for an XPU",
    "paddle.distributed.communication": _DATA_PARALLEL,
    "paddle.distributed.fleet.base.topology": "data parallelism: fleet.distributed_optimizer",
    "paddle.distributed.fleet.meta_parallel": "data parallelism: fleet.distributed_optimizer",
    "paddle.distributed.fleet.metrics": "fleet.util.all_reduce of what you fetch",
    "paddle.distributed.fleet.recompute": "strategy.recompute, or RecomputeOptimizer",
    "paddle.distributed.fleet.utils": "the tools of fleet.util, and files of this machine",
    "paddle.distributed.fsdp": "build_strategy.shard_parameters",
    "paddle.distributed.launch": "python -m graphopt.launch --nproc N script.py",
    "paddle.distributed.rpc": _DATA_PARALLEL,
    "paddle.distributed.sharding": (
        "build_strategy.shard_parameters, or reduce_strategy for optimizer state alone"
    ),
    "paddle.fluid.communicator": _DATA_PARALLEL,
    "paddle.fluid.contrib.decoder": "paddle.fluid.layers.dynamic_decode",
    "paddle.fluid.contrib.extend_optimizer": "paddle.optimizer.AdamW",
    "paddle.fluid.contrib.layers.metric_op": "paddle.fluid.layers.auc",
    "paddle.fluid.contrib.mixed_precision.fp16_lists": (
        "paddle.fluid.contrib.mixed_precision.AutoMixedPrecisionLists"
    ),
    "paddle.fluid.contrib.op_frequence": "the operators of program.global_block()",
    "paddle.fluid.contrib.quantize": _QUANTISED,
    "paddle.fluid.contrib.slim": _QUANTISED,
    "paddle.fluid.contrib.utils": "files of this machine",
    "paddle.fluid.data_feed_desc": _FEED,
    "paddle.fluid.dataloader": "paddle.io",
    "paddle.fluid.device_worker": _FEED,
    "paddle.fluid.distributed": _DATA_PARALLEL,
    **dict.fromkeys(
        (
            "paddle.fluid.dygraph.backward_strategy",
            "paddle.fluid.dygraph.checkpoint",
            "paddle.fluid.dygraph.container",
            "paddle.fluid.dygraph.dygraph_to_static",
            "paddle.fluid.dygraph.layers",
            "paddle.fluid.dygraph.learning_rate_scheduler",
            "paddle.fluid.dygraph.parallel",
            "paddle.fluid.dygraph.profiler",
        ),
        f"{_DYNAMIC}: fluid.layers and fluid.Executor, or paddle.jit.to_static",
    ),
    "paddle.fluid.incubate.fleet.base.fleet_base": "paddle.fluid.incubate.fleet.collective",
    "paddle.fluid.incubate.fleet.base.mode": "paddle.fluid.incubate.fleet.collective",
    "paddle.fluid.incubate.fleet.parameter_server": "paddle.fluid.incubate.fleet.collective",
    "paddle.fluid.incubate.fleet.utils": "fleet.util of paddle.distributed, and local files",
    "paddle.fluid.layers.layer_function_generator": "a function around fluid.layer_helper",
    "paddle.fluid.log_helper": "Python's logging",
    "paddle.fluid.op": "a static.Program with the operator, and static.Executor.run",
    "paddle.fluid.trainer_desc": _FEED,
    "paddle.fluid.trainer_factory": _FEED,
    "paddle.functional": "the functions of paddle",
    "paddle.hub": "download the model by hand, and static.load_inference_model",
    "paddle.incubate.asp": "saved models with pruned weights are read as they are",
    "paddle.incubate.autograd": "paddle.static.gradients, of gradients as well",
    "paddle.incubate.autotune": "nothing: XLA chooses how operators are computed",
    "paddle.incubate.cc": "nothing: each program is compiled",
    "paddle.incubate.distributed": _DATA_PARALLEL,
    "paddle.incubate.hapi": f"{_DYNAMIC}: a Program and static.Executor.run",
    "paddle.incubate.optimizer.functional": "an optimizer of paddle.optimizer",
    "paddle.incubate.xpu": "the layers of paddle.nn",
    "paddle.nn.attention": "paddle.nn.functional.scaled_dot_product_attention, which XLA compiles",
    "paddle.nn.initializer.lazy_init": "paddle.nn.Layer: the startup program sets first values",
    "paddle.nn.quant": _QUANTISED,
    "paddle.quantization": _QUANTISED,
    "paddle.random": "paddle.seed",
    "paddle.special": "the functions of paddle and paddle.nn.functional",
    "paddle.static.quantization": _QUANTISED,
    "paddle.sysconfig": "nothing: there is no native library",
    "paddle.utils.cpp_extension": "functions of paddle, or paddle.static.py_func",
    "paddle.utils.download": "download the file by hand, and give its path",
}

# replacements of other names, by the module or class that lacks them; `*` is any other name
_ADVICE: Mapping[str, Mapping[str, str]] = {
    "paddle": {
        "paddle.cast, with one of the dtypes of paddle": (
            "float8_e4m3fn float8_e5m2 pstring raw uint16 uint32 uint64"
        ),
        "paddle.to_tensor": (
            "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor "
            "IntTensor LongTensor ShortTensor as_tensor asarray from_numpy from_dlpack"
        ),
        "paddle.CPUPlace or paddle.CUDAPlace": "CustomPlace IPUPlace XPUPinnedPlace",
        "nothing: XLA orders what runs": "Event Stream",
        "paddle.seed": "Generator",
        "nothing: programs are static, and their operators are those of Paddle 2.6.2": (
            "IrGuard ir_guard enable_compat disable_compat use_compat_guard"
        ),
        "a list of numbers": "Size",
        "paddle.save": "async_save clear_async_save_task_queue",
        "strategy flags, or paddle.cast where a half type pays": (
            "autocast get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
            "is_autocast_enabled"
        ),
        "numpy.hanning, hamming, blackman, bartlett and kaiser, and paddle.to_tensor": (
            "bartlett_window blackman_window hamming_window hann_window kaiser_window"
        ),
        "paddle.bernoulli": "bernoulli_",
        "paddle.rand and a function of it": "cauchy_ geometric_ log_normal_ normal_",
        "paddle.set_device": "get_default_device get_device_module set_default_device",
        "the function without the underscore": (
            "baddbmm_ bitwise_invert_ bitwise_left_shift_ bitwise_right_shift_ copysign_ div_ "
            "gammainc_ gammaincc_ gammaln_ less_ masked_scatter_ scatter_add_ sinc_"
        ),
        "numpy.asarray of a fetched value": "to_dlpack",
        "static.data without the batch": "check_shape",
        "import scipy": "check_import_scipy",
        "paddle.nn.Layer: the startup program sets first values": "LazyGuard",
        "the names of Paddle 2.6.2, which dir(paddle) lists": "*",
    },
    "paddle.Tensor": {
        "paddle.cast(x, dtype)": "to",
        "paddle.zeros_like, ones_like and full_like": "new_empty new_full new_ones new_zeros",
        "a function of paddle, or fetch the value: exe.run(fetch_list=[x])": "*",
    },
    "paddle.compat": {"the functions of paddle under their own names": "*"},
    "paddle.dataset": {"a reader of your own": "*"},
    "paddle.device": {"paddle.set_device; XLA manages devices, streams and memory": "*"},
    "paddle.distributed": {_DATA_PARALLEL: "*"},
    "paddle.fluid": {
        f"{_DYNAMIC}: leave it out": "VarBase",
        "paddle.save and paddle.load": "save_dygraph load_dygraph",
        _FEED: "DistMultiTrainer MultiTrainer PipelineTrainer TrainerDesc",
        "fluid.CompiledProgram(program).with_data_parallel(loss_name)": "HashName RoundRobin",
        "fluid.layers.learning_rate_scheduler": "learning_rate_decay",
        "paddle.complex": "ComplexVariable",
        "the names of paddle.static": "*",
    },
    "paddle.fluid.contrib": {"the layers of paddle.fluid.layers": "*"},
    "paddle.fluid.contrib.layers": {"the layers of paddle.fluid.layers": "*"},
    "paddle.incubate": {
        "paddle.gather and paddle.scatter_nd_add": "*",
    },
    "paddle.incubate.nn": {"the layers of paddle.nn, which passes fuse": "*"},
    "paddle.incubate.nn.functional": {
        "the functions of paddle.nn.functional, which passes fuse": "*",
    },
    "paddle.incubate.optimizer": {"the optimizers of paddle.optimizer": "*"},
    "paddle.inference": {"config.summary(), which says what is obeyed": "*"},
    "paddle.linalg": {
        "paddle.matmul": "fp8_fp8_half_gemm_fused",
    },
    "paddle.nn": {"the layers of paddle.nn under their names of Paddle 2.6.2": "*"},
    "paddle.nn.Layer": {
        "exe.run of a program: its state is in a scope": "*",
        "paddle.nn.Layer.add_sublayer": "add_module register_module set_sublayer set_submodule",
        "paddle.nn.Layer.add_parameter": "register_parameter",
        "paddle.nn.Layer.named_sublayers": "modules named_modules get_sublayer get_submodule",
        "paddle.nn.Layer.named_parameters": "get_parameter get_buffer",
        "paddle.nn.Layer.set_state_dict": "load_state_dict",
        "paddle.nn.Layer.register_forward_post_hook": "register_forward_hook",
    },
    "paddle.nn.functional": {"functions of paddle and paddle.nn.functional": "*"},
    "paddle.optimizer.Optimizer": {"paddle.optimizer.Optimizer.minimize": "*"},
    "paddle.static.Executor": {"paddle.static.Executor.run": "*"},
    "paddle.static.Program": {
        "paddle.static.Program.all_parameters and list_vars": "*",
        "paddle.static.Program.clone": "set_is_test_attr copy_to_block",
    },
    "paddle.utils": {"matplotlib": "Ploter", "print(program)": "dump_config"},
    "paddle.version": {"paddle.version.full_version": "*"},
}

# the places to search for a name that another place lacks, the usual ones first
HOMES = (
    *("paddle", "paddle.nn.functional", "paddle.static", "paddle.static.nn", "paddle.nn"),
    *("paddle.linalg", "paddle.fluid.layers", "paddle.fluid"),
)


@cache
def public_names() -> Mapping[str, set[str]]:
    """Read the public names of Paddle, by their module or class."""
    found: dict[str, set[str]] = {}
    for line in _RECORD.read_text("utf-8").splitlines():
        if not line.startswith("["):
            space, _, names = line.partition(": ")
            found.setdefault(space, set()).update(names.split())
    return found


@cache
def paddle_modules() -> Mapping[str, set[str]]:
    """Read the names of Paddle's modules, by their package."""
    lines = _MODULES.read_text("utf-8").splitlines()
    return {package: set(names.split()) for package, _, names in (s.partition(": ") for s in lines)}


def missing_module(name: str) -> str | None:
    """Find the entry of `MODULES` that is or contains a dotted name; None if there is none."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def words(name: str) -> str | None:
    """Compose the error for `paddle.x.y`, which graphopt lacks; None if Paddle lacks it, too.

    The error has advice. Every name in a missing module counts as a name of Paddle.
    """
    module = missing_module(name)
    if module is not None:
        return f"graphopt has no {module}. Instead: {MODULES[module]}"
    space, _, last = name.rpartition(".")
    if last not in public_names().get(space, ()):
        return None
    return f"graphopt has no {name}. Instead: {_advice(space, last)}"


def _advice(space: str, name: str) -> str:
    """Look up the advice for a name: its row, a namesake elsewhere, or the row of other names."""
    own = _ADVICE.get(space, {})
    exact = next((text for text, names in own.items() if name in names.split()), None)
    found = exact or _namesake(space, name)
    while found is None:
        found = next((text for text, names in _ADVICE.get(space, {}).items() if names == "*"), None)
        space = space.rpartition(".")[0]
    return found


def _namesake(space: str, name: str) -> str | None:
    """Find the full name of a function or class of that name elsewhere; None for object members."""
    is_class = space[space.rfind(".") + 1].isupper()
    if is_class and space != "paddle.Tensor":
        return None
    kinds = (FunctionType,) if is_class else (FunctionType, type)
    for home in HOMES:
        module = import_module(home.replace("paddle", _ROOT, 1))
        if home != space and name in dir(module) and isinstance(getattr(module, name), kinds):
            return f"{home}.{name}"
    return None


def name_error(module: str, name: str) -> AttributeError:
    """Build the error for a name that a module lacks, with advice for a public name of Paddle."""
    text = None if name.startswith("_") else words(f"{module.replace(_ROOT, 'paddle', 1)}.{name}")
    if text is not None:
        return AttributeError(text)
    return _unknown(f"module '{module}'", name, dir(sys.modules[module]))


def _unknown(owner: str, name: str, names: Iterable[str]) -> AttributeError:
    """Build the error for a name that Paddle lacks, too; suggest the nearest of `names`."""
    text = f"{owner} has no attribute '{name}'"
    if not name.startswith("_"):
        from difflib import get_close_matches  # only errors need this import

        for near in get_close_matches(name, [each for each in names if each[0] != "_"], 1, 0.7):
            text += f"; did you mean '{near}'?"
    return AttributeError(text)


def explain(module: MutableMapping[str, Any]) -> None:
    """Give a module errors with advice for missing public names of Paddle."""

    def look(name: str) -> Any:
        raise name_error(module["__name__"], name)

    module["__getattr__"] = look
    # marks it as a package, so that imports of a missing name reach `finders.MissingNames`
    module.setdefault("__path__", list[str]())


def explain_members(owner: type, space: str) -> None:
    """Give a class errors with advice for missing public members of Paddle's class."""

    def look(self: Any, name: str) -> Any:
        raise member_error(self, name, space)

    owner.__getattr__ = look  # type: ignore[attr-defined]


def member_error(owner: Any, name: str, space: str) -> AttributeError:
    """Build the error for a member that an object lacks, with advice if Paddle's class has it."""
    text = None if name.startswith("_") else words(f"{space}.{name}")
    if text is not None:
        return AttributeError(text)
    return _unknown(f"'{type(owner).__name__}' object", name, dir(owner))
