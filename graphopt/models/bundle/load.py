"""Executables from bytes whose hash was checked: XLA's own, or compiled from StableHLO.

Where XLA computes `@prepare`, a bundle has it as the text of a module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
from jaxlib.xla_client import CompileOptions, DeviceList
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.signature import prepare_function
from graphopt.ir.dialect.text import ModuleParser, text_of
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.disk.known import prepare_calls
from graphopt.runtime.settings.progress import announced
from graphopt.runtime.state.prepare import Prepare


def prepare_text(compiled: Compiled) -> str:
    """The text for a program; "" where a summary says all of its `@prepare`."""
    if compiled.prepare is None or compiled.prepare.steps is not None:
        return ""
    function = prepare_function(compiled.module)
    assert function is not None
    return text_of(ModuleOp([function.clone()]))


def prepare_of(text: str, place: Place) -> Prepare | None:
    """The `@prepare` of a text; whatever a malformed one leads to is raised."""
    module = ModuleParser(new_context(), text, "prepare").parse_module()
    module.verify()
    return Prepare.of(module, place.platform, partial(device_of, place))


def compiled_stablehlo(stablehlo: bytes, options: Mapping[str, Any], device: Any) -> Any:
    """XLA's executable of a module, for one device."""
    prepare_calls(stablehlo)
    given = CompileOptions()
    given.env_option_overrides = list(options.items())
    return device.client.compile_and_load(stablehlo, DeviceList((device,)), given)


def executable_of(content: bytes, device: Any) -> tuple[Any, str]:
    """The executable of its bytes, or None and the reason why XLA does not take it."""
    devices = DeviceList((device,))
    prepare_calls(content)
    try:
        return device.client.deserialize_executable(content, devices, None), ""
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return None, _first_line(error)


def from_stablehlo(stablehlo: bytes, options: Mapping[str, Any], device: Any) -> tuple[Any, str]:
    """As `executable_of`, compiled from StableHLO."""
    try:
        with announced(lambda: "compiling a program of a bundle (for another kind of machine)"):
            return compiled_stablehlo(stablehlo, options, device), ""
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return None, _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
