"""Executables from checked bytes: deserialized, or compiled from StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jaxlib.xla_client import CompileOptions, DeviceList

from graphopt.runtime.disk.lapack import prepare_calls
from graphopt.runtime.settings.progress import announce


def compiled_stablehlo(stablehlo: bytes, options: Mapping[str, Any], device: Any) -> Any:
    """Compile a StableHLO module for one device."""
    prepare_calls(stablehlo)
    given = CompileOptions()
    given.env_option_overrides = list(options.items())
    return device.client.compile_and_load(stablehlo, DeviceList((device,)), given)


def executable_of(content: bytes, device: Any) -> tuple[Any, str]:
    """Deserialize an executable; return None and the reason if XLA rejects it."""
    devices = DeviceList((device,))
    prepare_calls(content)
    try:
        return device.client.deserialize_executable(content, devices, None), ""
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return None, _first_line(error)


def from_stablehlo(stablehlo: bytes, options: Mapping[str, Any], device: Any) -> tuple[Any, str]:
    """Compile an executable from StableHLO; return as `executable_of`."""
    try:
        with announce(lambda: "compiling a program of a bundle (for another kind of machine)"):
            return compiled_stablehlo(stablehlo, options, device), ""
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return None, _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
