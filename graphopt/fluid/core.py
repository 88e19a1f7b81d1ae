"""The names of paddle.fluid.core that scripts use: scopes, places, variable types."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from enum import Enum
from typing import Any

from graphopt.device import is_compiled_with_cinn as is_compiled_with_cinn
from graphopt.device import is_compiled_with_cuda as is_compiled_with_cuda
from graphopt.device import is_compiled_with_custom_device as is_compiled_with_custom_device
from graphopt.device import is_compiled_with_ipu as is_compiled_with_ipu
from graphopt.device import is_compiled_with_rocm as is_compiled_with_rocm
from graphopt.device import is_compiled_with_xpu as is_compiled_with_xpu
from graphopt.errors import EOFException as EOFException
from graphopt.errors import OperatorError
from graphopt.fluid.lod_tensor import LoDTensor as LoDTensor
from graphopt.fluid.lod_tensor import LoDTensorArray as LoDTensorArray
from graphopt.frontend import lazy
from graphopt.ir.dtypes import DType
from graphopt.ir.program import EMPTY, GRAD_SUFFIX, OpRole, VarKind
from graphopt.ir.program.kinds import AttrKind
from graphopt.runtime.devices.places import CPUPlace as CPUPlace
from graphopt.runtime.devices.places import CUDAPinnedPlace as CUDAPinnedPlace
from graphopt.runtime.devices.places import CUDAPlace as CUDAPlace
from graphopt.runtime.devices.places import Place as Place
from graphopt.runtime.devices.places import XPUPlace as XPUPlace
from graphopt.runtime.devices.places import cuda_places
from graphopt.runtime.parallel_executor import ParallelExecutor as ParallelExecutor
from graphopt.runtime.settings.flag_table import FLAGS
from graphopt.runtime.settings.flags import TF32, get_flags, set_flags
from graphopt.runtime.state.scope import Scope as Scope
from graphopt.runtime.state.slots import SelectedRows as SelectedRows

# The predictors of 1.8: few scripts use them, and they import the readers of saved models.
_INFERENCE = frozenset(
    (
        "AnalysisConfig",
        "NativeConfig",
        "PaddleBuf",
        "PaddleDType",
        "PaddlePredictor",
        "PaddleTensor",
        "ZeroCopyTensor",
        "create_paddle_predictor",
    )
)

_RECORDS = {
    "ProgramDesc": ("graphopt.frontend.descriptions", "ProgramDesc"),
    "BlockDesc": ("graphopt.frontend.descriptions", "BlockDesc"),
    "OpDesc": ("graphopt.frontend.descriptions", "OperatorDesc"),
}
_PRIMITIVES = (
    *("_is_all_prim_enabled", "_is_bwd_prim_enabled", "_is_eager_prim_enabled"),
    *("_is_fwd_prim_enabled", "_set_prim_all_enabled", "_set_prim_backward_enabled"),
    *("_set_prim_forward_enabled", "set_prim_eager_enabled"),
)
lazy.attach(
    globals(),
    {
        **{name: ("graphopt.fluid.inference", name) for name in _INFERENCE},
        **{name: ("graphopt.fluid.primitives", name) for name in _PRIMITIVES},
        **_RECORDS,
    },
)


AttrType = AttrKind
# Paddle's error for an operator that cannot be built or run
EnforceNotMet = OperatorError


class DeviceType(Enum):
    """The kinds of devices that scripts choose a place by."""

    CPU = 1
    CUDA = 2
    XPU = 3


class _ElementTypes:
    """The element types that all releases name alike."""

    BOOL = DType("bool")
    UINT8 = DType("uint8")
    INT8 = DType("int8")
    INT16 = DType("int16")
    INT32 = DType("int32")
    INT64 = DType("int64")
    COMPLEX64 = DType("complex64")
    COMPLEX128 = DType("complex128")


class VarDesc:
    """The types of variables, in the place where 1.8 has them."""

    class VarType(_ElementTypes):
        """Element types and kinds of variables."""

        FP16 = DType("float16")
        FP32 = DType("float32")
        FP64 = DType("float64")
        BF16 = DType("bfloat16")
        LOD_TENSOR = VarKind.DENSE_TENSOR
        DENSE_TENSOR = VarKind.DENSE_TENSOR
        SELECTED_ROWS = VarKind.SELECTED_ROWS
        LOD_TENSOR_ARRAY = VarKind.TENSOR_ARRAY
        DENSE_TENSOR_ARRAY = VarKind.TENSOR_ARRAY
        READER = VarKind.READER
        FEED_MINIBATCH = VarKind.FEED_MINIBATCH
        FETCH_LIST = VarKind.FETCH_LIST
        STEP_SCOPES = VarKind.STEP_SCOPES
        LOD_RANK_TABLE = VarKind.LOD_RANK_TABLE
        PLACE_LIST = VarKind.PLACE_LIST
        RAW = VarKind.RAW


class DataType(_ElementTypes):
    """The element types, under the names that Paddle 3 has for them."""

    FLOAT16 = DType("float16")
    FLOAT32 = DType("float32")
    FLOAT64 = DType("float64")
    BFLOAT16 = DType("bfloat16")


# the names in Paddle 2 and 3
Tensor = LoDTensor
DenseTensor = LoDTensor
DenseTensorArray = LoDTensorArray


class op_proto_and_checker_maker:
    """The roles of operators, and the names of attributes that hold them."""

    class OpRole:
        """The bits of the attribute `op_role`."""

        Forward = OpRole.FORWARD
        Backward = OpRole.BACKWARD
        Optimize = OpRole.OPTIMIZE
        LRSched = OpRole.LR_SCHEDULE
        Loss = OpRole.LOSS

    @staticmethod
    def kOpDeviceAttrName() -> str:
        """Return the name of the attribute with an operator's requested device."""
        return "op_device"

    @staticmethod
    def kOpRoleAttrName() -> str:
        """Return the name of the attribute with an operator's role."""
        return "op_role"

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        """Return the name of the attribute with a parameter and its gradient."""
        return "op_role_var"


class _Globals(MutableMapping[str, Any]):
    """All flags by name, read by `get_flags` and written by `set_flags`."""

    def __getitem__(self, name: str) -> Any:
        if name not in _flag_names():
            raise KeyError(name)
        return get_flags(name)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _FIXED_FLAGS:
            raise RuntimeError(
                f"core.globals(): flag '{name}' is not writable, because Paddle reads it once at "
                "its start; set it in the environment before"
            )
        set_flags({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"flag '{name}' cannot be deleted; set another value")

    def __iter__(self) -> Iterator[str]:
        return iter(_flag_names())

    def __len__(self) -> int:
        return len(_flag_names())


_FIXED_FLAGS = ("FLAGS_free_idle_chunk", "FLAGS_free_when_no_cache_hit")


def _flag_names() -> list[str]:
    return [f"FLAGS_{name}" for name in FLAGS]


def globals() -> MutableMapping[str, Any]:  # Paddle's name
    """Return the flags as a mapping (core.globals)."""
    return _Globals()


def _set_eager_deletion_mode(threshold: float, fraction: float, fast: bool) -> None:
    """Set the flags of eager deletion, which change nothing: XLA frees what no step needs."""
    set_flags(
        {
            "FLAGS_eager_delete_tensor_gb": threshold,
            "FLAGS_memory_fraction_of_eager_deletion": fraction,
            "FLAGS_fast_eager_deletion_mode": fast,
        }
    )


def save_op_compatible_info(program_desc: Any) -> None:
    """Do nothing: a saved program itself records the operator versions that it needs."""


def is_float16_supported(place: Place) -> bool:
    """Return whether the place is a GPU: Paddle computes float16 on no CPU.

    graphopt itself computes it on every device.
    """
    return place.platform != "cpu"


def is_bfloat16_supported(place: Place) -> bool:
    """Return whether the place is a GPU, as `is_float16_supported` does."""
    return place.platform != "cpu"


def supports_bfloat16() -> bool:
    """Return False: oneDNN has no bfloat16 operators to choose; XLA computes it on any CPU."""
    return False


def supports_int8() -> bool:
    """Return False: there are no int8 kernels for CPUs."""
    return False


def op_support_gpu(op_type: str) -> bool:
    """Return whether there is a GPU; every operator supports it."""
    return is_compiled_with_cuda()


def is_compiled_with_mkldnn() -> bool:
    """Return False: no attribute of an operator chooses oneDNN; FLAGS_graphopt_kernels does."""
    return False


def grad_var_suffix() -> str:
    """Return the suffix of the names of gradients."""
    return GRAD_SUFFIX


def empty_var_name() -> str:
    """Return the name that stands for no variable."""
    return EMPTY


_switches = {"cublas": True, "cudnn": True}


def set_cublas_switch(active: bool) -> None:
    """Allow or forbid TF32 for float32 products on GPUs.

    XLA has one precision for products and convolutions, so a switch that is off forbids TF32 for
    both: FLAGS_graphopt_tf32 is on while no switch is off.
    """
    _set_switch("cublas", active)


def get_cublas_switch() -> bool:
    """Return whether `set_cublas_switch` allows TF32 for products."""
    return _switches["cublas"]


def set_cudnn_switch(active: bool) -> None:
    """Allow or forbid TF32 for convolutions; see `set_cublas_switch`."""
    _set_switch("cudnn", active)


def get_cudnn_switch() -> bool:
    """Return whether `set_cudnn_switch` allows TF32 for convolutions."""
    return _switches["cudnn"]


def _set_switch(library: str, active: bool) -> None:
    _switches[library] = bool(active)
    set_flags({TF32: all(_switches.values())})


def get_cuda_device_count() -> int:
    """Count the GPUs."""
    return len(cuda_places()) if is_compiled_with_cuda() else 0
