"""Modes, defaults and records of programs (paddle.framework)."""

from __future__ import annotations

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.frontend.framework_io import load as load
from graphopt.frontend.framework_io import save as save
from graphopt.frontend.mode import disable_static as disable_static
from graphopt.frontend.mode import enable_static as enable_static
from graphopt.frontend.mode import get_default_dtype as get_default_dtype
from graphopt.frontend.mode import in_dynamic_mode as in_dynamic_mode
from graphopt.frontend.mode import in_dynamic_or_pir_mode as in_dynamic_or_pir_mode
from graphopt.frontend.mode import in_pir_mode as in_pir_mode
from graphopt.frontend.mode import seed as seed
from graphopt.frontend.mode import set_default_dtype as set_default_dtype
from graphopt.frontend.parameters import ParamAttr as ParamAttr
from graphopt.ir.program import Block as Block
from graphopt.ir.program import Parameter as Parameter
from graphopt.ir.program import Program as Program
from graphopt.runtime.devices.places import CPUPlace as CPUPlace
from graphopt.runtime.devices.places import CUDAPinnedPlace as CUDAPinnedPlace
from graphopt.runtime.devices.places import CUDAPlace as CUDAPlace
from graphopt.runtime.settings.flags import get_flags as get_flags
from graphopt.runtime.settings.flags import set_flags as set_flags

_INNER = (
    *("IrGraph", "_current_expected_place", "_dygraph_tracer", "convert_np_dtype_to_dtype_"),
    *("switch_main_program", "switch_startup_program", "use_pir_api"),
)
lazy.attach(
    globals(),
    {
        "LayerHelper": ("graphopt.fluid.layer_helper", "LayerHelper"),
        "core": ("graphopt.fluid.core", ""),
        "io_utils": ("graphopt.framework.io_utils", ""),
        "is_parameter": ("graphopt.fluid.io", "is_parameter"),
        "random": ("graphopt.frontend.seeds", ""),
        **{name: ("graphopt.fluid.framework", name) for name in _INNER},
    },
)
publish(globals(), __name__)
