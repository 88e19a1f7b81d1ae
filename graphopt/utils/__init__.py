"""Helpers that scripts reach as `paddle.utils`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from graphopt.frontend import lazy
from graphopt.frontend import version as _version
from graphopt.ir.program import Block
from graphopt.ir.program import unique_name as unique_name
from graphopt.utils.layers_utils import assert_same_structure as assert_same_structure
from graphopt.utils.layers_utils import convert_to_list as convert_to_list
from graphopt.utils.layers_utils import flatten as flatten
from graphopt.utils.layers_utils import is_sequence as is_sequence
from graphopt.utils.layers_utils import map_structure as map_structure
from graphopt.utils.layers_utils import pack_sequence_as as pack_sequence_as
from graphopt.utils.lazy_import import try_import as try_import

T = TypeVar("T")


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[T], T]:
    """Return a decorator that changes nothing, as in Paddle 2.6 (paddle.utils.deprecated)."""
    return lambda function: function


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raise Exception unless 2.6.2, whose names these are, is in the range."""
    _version.require(_version.PADDLE, min_version, max_version)


def run_check() -> None:
    """Train a small program, and report that it works (paddle.utils.run_check)."""
    import_module("graphopt.utils.install_check").run_check()


def get_inputs_outputs_in_block(block: Block) -> tuple[set[str], set[str]]:
    """Collect the names of outer variables that a block's operators read, or write."""
    read = {name for op in block.ops for name in op.input_arg_names}
    written = {name for op in block.ops for name in op.output_arg_names}
    return read.difference(block.vars), written.difference(block.vars)


lazy.attach(globals(), {"dlpack": ("graphopt.utils.dlpack", "")})
