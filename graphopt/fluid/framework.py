"""Programs, modes and flags as 1.8 names them (paddle.fluid.framework)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from graphopt.device import is_compiled_with_cuda as is_compiled_with_cuda
from graphopt.errors import UnsupportedError
from graphopt.fluid import core as core
from graphopt.fluid import unique_name as unique_name
from graphopt.frontend import lazy, version
from graphopt.frontend.absent import absent
from graphopt.frontend.mode import device_guard as device_guard
from graphopt.frontend.mode import in_dynamic_or_pir_mode as in_dynamic_or_pir_mode
from graphopt.frontend.mode import in_pir_mode as in_pir_mode
from graphopt.frontend.mode import name_scope as name_scope
from graphopt.frontend.mode import require_static, static_mode
from graphopt.ir.dtypes import DType, as_dtype
from graphopt.ir.program import GRAD_SUFFIX
from graphopt.ir.program import Block as Block
from graphopt.ir.program import Operator as Operator
from graphopt.ir.program import Parameter as Parameter
from graphopt.ir.program import Program as Program
from graphopt.ir.program import Variable as Variable
from graphopt.ir.program import default_main_program as default_main_program
from graphopt.ir.program import default_startup_program as default_startup_program
from graphopt.ir.program import program_guard as program_guard
from graphopt.ir.program.defaults import switch_main_program as switch_main_program
from graphopt.ir.program.defaults import switch_startup_program as switch_startup_program
from graphopt.ir.program.kinds import EMPTY
from graphopt.runtime.devices.places import Place, default_place
from graphopt.runtime.devices.places import cpu_places as cpu_places
from graphopt.runtime.devices.places import cuda_places as cuda_places
from graphopt.runtime.settings.flags import get_flags as get_flags
from graphopt.runtime.settings.flags import set_flags as set_flags

GRAD_VAR_SUFFIX = GRAD_SUFFIX
EMPTY_VAR_NAME = EMPTY
TEMP_VAR_NAME = "@TEMP@"
ZERO_VAR_SUFFIX = "@ZERO"
CONTROL_DEP_VAR_PREFIX = "^DEPENDENCY"


def _current_expected_place() -> Place:
    """Return the default place of executors."""
    return default_place()


def _dygraph_tracer() -> None:
    """Return None: nothing records operators outside of programs."""
    return


@contextmanager
def _dygraph_guard(tracer: Any) -> Iterator[None]:
    """Enter static mode for a `with` block if the tracer is None; else raise UnsupportedError."""
    if tracer is not None:
        raise UnsupportedError("graphopt has no dynamic mode, and no tracer for it")
    with static_mode():
        yield


def static_only(func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to raise UnsupportedError in dynamic mode."""

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        require_static()
        return func(*args, **kwargs)

    return wrapper


def use_pir_api() -> bool:
    """Return False, as `in_pir_mode` does."""
    return False


def in_dygraph_mode() -> bool:
    """Return False: programs are always static (fluid.in_dygraph_mode)."""
    return False


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raise Exception unless 1.8.5, whose names these are, is in the range (require_version)."""
    version.require(version.FLUID, min_version, max_version)


def convert_np_dtype_to_dtype_(np_dtype: Any) -> DType:
    """Return the element type for a name or a NumPy type; TypeError if there is none."""
    return as_dtype(np_dtype)


convert_np_dtype_to_proto_type = convert_np_dtype_to_dtype_


def dtype_is_floating(dtype: Any) -> bool:
    """Return whether a dtype is float16, float32 or float64."""
    return as_dtype(dtype) in ("float16", "float32", "float64")


def grad_var_name(var_name: str) -> str:
    """Return the name of a variable's gradient."""
    return var_name + GRAD_SUFFIX


def _get_var(name: str, program: Program | None = None) -> Variable:
    """Find a variable in the global block of a program, by default the main program."""
    return (program or default_main_program()).global_block().var(name)


# quantization of programs; packages import it even if they do not quantize
IrGraph = absent(
    "IrGraph",
    "graphopt has no paddle.fluid.framework.IrGraph: its passes rewrite xDSL. Instead: "
    "graphopt.passes, or saved quantised models, which are read without conversion",
)

lazy.attach(globals())
