"""The table of a network's layers: shapes, parameters, operations and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from graphopt.display.table import Column, Page, Shown, Table
from graphopt.display.units import quantity

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerRow:
    """A layer, or an op of a program: its name with a number, shapes, parameters, operations."""

    name: str
    inputs: tuple[Shape, ...]
    output: Shape
    parameters: int
    flops: int


@dataclass(frozen=True, repr=False)
class LayerSummary(Shown):
    """The layers of a network in the order of their calls; it prints itself.

    `total_params` and `trainable_params` count each parameter once. `elements` is the number of
    elements of the inputs, and `width` the bytes of a number.
    """

    rows: tuple[LayerRow, ...]
    total_params: int
    trainable_params: int
    elements: int
    width: int = 4

    @property
    def flops(self) -> int:
        """The operations of one forward pass."""
        return sum(row.flops for row in self.rows)

    def table(self) -> tuple[LayerRow, ...]:
        """Return the rows."""
        return self.rows

    def page(self) -> Page:
        """Build tables of the layers, the parameters, and the memory that Paddle estimates."""
        shown = [
            (
                row.name,
                ", ".join(str(list(shape)) for shape in row.inputs),
                str(list(row.output)),
                f"{row.parameters:,}",
                f"{quantity(row.flops)}FLOP" if row.flops else "0",
            )
            for row in self.rows
        ]
        passes = 2 * sum(prod(row.output) for row in self.rows)
        sizes = {
            "Input size (MB)": self.elements,
            "Forward/backward pass size (MB)": passes,
            "Params size (MB)": self.total_params,
        }
        sizes["Estimated Total Size (MB)"] = sum(sizes.values())
        totals = {
            "Total params": f"{self.total_params:,}",
            "Trainable params": f"{self.trainable_params:,}",
            "Non-trainable params": f"{self.total_params - self.trainable_params:,}",
            "Forward pass": f"{quantity(self.flops)}FLOP",
        }
        megabytes = {name: f"{count * self.width / 2**20:.2f}" for name, count in sizes.items()}
        return Page([Table(_COLUMNS, shown), _lines(totals), _lines(megabytes)])


_COLUMNS = (
    Column("Layer (type)"),
    Column("Input Shape", wraps=True),
    Column("Output Shape"),
    Column("Param #", right=True),
    Column("FLOPs", right=True),
)


def _lines(facts: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in facts.items())
