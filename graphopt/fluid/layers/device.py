"""The places that a program of 1.8 could ask for (paddle.fluid.layers.device)."""

from __future__ import annotations

from graphopt.frontend.absent import absent

get_places = absent(
    "get_places",
    "graphopt has no paddle.fluid.layers.device.get_places: a program does not know its devices. "
    "Instead: fluid.CompiledProgram(program).with_data_parallel(places=fluid.cpu_places(n))",
)
