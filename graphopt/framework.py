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

lazy.attach(
    globals(),
    {"core": ("graphopt.fluid.core", ""), "random": ("graphopt.frontend.seeds", "")},
)
publish(globals(), __name__)
