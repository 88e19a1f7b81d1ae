"""Models as XLA programs: `jax.export` artifacts, and StableHLO as text or bytecode."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from jax import export

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.lowering.locations import for_files
from graphopt.models.export.function import ExportedFunction
from graphopt.models.export.sizes import Sizes, first_that_works

PLATFORMS = ("cpu", "cuda", "tpu")


def export_function(
    function: ExportedFunction,
    sizes: Sizes = None,
    platforms: Sequence[str] = PLATFORMS,
    *,
    symbolic: bool = True,
) -> tuple[export.Exported, list[str]]:
    """Export the function with JAX, and note its limits.

    Unknown sizes become symbols where the program allows it, else they are `sizes` (see
    `export.sizes`); platforms that an op cannot be lowered for are omitted. Raises
    UnsupportedError, naming the op, when no attempt works.
    """
    state = [
        jax.ShapeDtypeStruct(shape_of(port.type), dtype_of(port.type).numpy)
        for port in function.state
    ]
    key = [jax.ShapeDtypeStruct((2,), np.uint32)] if function.takes_key else []
    # keep every argument, whether it is read or not
    jitted = jax.jit(function, keep_unused=True)

    def make(types: list[Any]) -> tuple[export.Exported, list[str]]:
        return _on_platforms(jitted, [*state, *types, *key], tuple(platforms))

    with jax.enable_x64(True), for_files():
        (made, left_out), notes = first_that_works(function.feeds, sizes, make, symbolic=symbolic)
    notes += left_out
    if function.is_random and not function.takes_key:
        notes.append("random ops draw the same numbers in every call")
    return made, notes


def _on_platforms(
    jitted: Any, arguments: Sequence[Any], platforms: tuple[str, ...]
) -> tuple[export.Exported, list[str]]:
    try:
        return export.export(jitted, platforms=platforms)(*arguments), []
    except (NotImplementedError, ValueError):
        if len(platforms) == 1:
            raise
    works: list[str] = []
    notes: list[str] = []
    for platform in platforms:
        try:
            export.export(jitted, platforms=(platform,))(*arguments)
            works.append(platform)
        except (NotImplementedError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0].partition(" See ")[0]
            notes.append(f"not for {platform}: {reason}")
    return export.export(jitted, platforms=tuple(works) or platforms)(*arguments), notes


def serialize_artifact(artifact: export.Exported) -> bytes:
    """Serialize a `jax.export` artifact; raise UnsupportedError if flatbuffers is missing."""
    if find_spec("flatbuffers") is None:  # jax.export imports it when it serializes
        raise UnsupportedError(
            "writing a .jaxexport file needs the package flatbuffers: "
            "pip install 'graphopt[export]'"
        )
    return bytes(artifact.serialize())
