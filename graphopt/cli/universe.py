"""The entry point through which xDSL's own tools find the `pd` dialect, our passes and targets."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.universe import Universe
from xdsl.utils.target import Target

from graphopt.passes.table.registry import own_passes


def _pd() -> Dialect:
    from graphopt.ir.dialect.context import Pd

    return Pd


def _dot() -> type[Target]:
    from graphopt.cli.targets import DotTarget

    return DotTarget


def _svg() -> type[Target]:
    from graphopt.cli.targets import SvgTarget

    return SvgTarget


def _stablehlo() -> type[Target]:
    from graphopt.cli.targets import StableHloTarget

    return StableHloTarget


UNIVERSE = Universe(
    all_dialects={"pd": _pd},
    # xDSL's tools have a `cse` of their own, and names must be unique across universes
    all_passes={name: load for name, load in own_passes().items() if name != "cse"},
    all_targets={"dot": _dot, "stablehlo": _stablehlo, "svg": _svg},
)
