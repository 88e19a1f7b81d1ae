"""graphopt info --fits: the memory of a step before it runs, and whether a device has as much."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphopt.display.table import for_stream
from graphopt.display.units import bytes_of, size
from graphopt.models.feeds import shapes_for, sizes_of
from graphopt.models.model import read_program_only
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.settings.jax_import import import_jax


def print_fits(model: str, limit: str, dims: Sequence[str]) -> int:
    """Print the memory of a step; return 0 when it is at most `limit`, else 1.

    Raises ValueError for a limit that is not a number of bytes, and the errors of `memory_of`.
    """
    import_jax()
    from graphopt.runtime.profiling.memory import Memory, memory_of, rows_that_fit

    most, sizes, read = bytes_of(limit), sizes_of(dims), read_program_only(model)
    names = tuple(read.fed_names), tuple(read.fetch_names)
    compilation = Compilation(read.program, *names, None, (likely_place(),), in_one=True)
    found = memory_of(compilation, shapes_for(read.program, read.fed_names, sizes))
    print(for_stream(found.page(), sys.stdout))
    if found.peak <= most:
        print(f"\nthe step fits into {size(most)}")
        return 0
    print(f"\nthe step does not fit into {size(most)}")
    if isinstance(sizes, int):

        def measure(rows: int) -> Memory:
            if rows == sizes:
                return found
            return memory_of(compilation, shapes_for(read.program, read.fed_names, rows))

        print(f"about --dim {rows_that_fit(measure, sizes, most)} fits")
    return 1
