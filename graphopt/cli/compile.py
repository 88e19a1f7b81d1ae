"""graphopt compile: compile a model for chosen input sizes, into one file, a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphopt.cli.model_arguments import add_model
from graphopt.display.units import several, size

EXAMPLE = "graphopt compile resnet18/model --sizes x=1x3x32x32,x=8x3x32x32 -o app.graphopt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt compile`."""
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the bundle to write (suffix .graphopt)",
    )
    parser.add_argument(
        "--sizes",
        action="append",
        required=True,
        metavar="NAME=AxBxC,...",
        help="the shape of each input; repeat a name to begin another set of shapes. A size may be "
        "a range, as in x=1x3x48x64..640: inputs are then padded to the next of several sizes",
    )
    parser.add_argument(
        "--padding",
        type=float,
        default=0.12,
        metavar="SHARE",
        help="for ranges: the largest fraction of padding along an axis (default 0.12)",
    )
    parser.add_argument(
        "--place",
        choices=("cpu", "gpu"),
        help="compile for this kind of device (default: the default device)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Compile a model for some sizes, and write the bundle."""
    from graphopt.models.bundle.sizes import check_sets, has_range, ranges_of, shapes_of_sets
    from graphopt.models.model import import_model
    from graphopt.runtime.devices.places import as_place, check_place, default_place
    from graphopt.runtime.feeds.buckets import automatic
    from graphopt.runtime.settings.jax_import import import_jax

    path = Path(arguments.output)
    if path.suffix != ".graphopt":
        raise ValueError(f"{path}: a bundle has the suffix .graphopt")
    ranges = ranges_of(arguments.sizes)
    model = import_model(arguments.model, arguments.params)
    check_sets(model.program, model.fed_names, ranges)
    buckets = automatic(arguments.padding) if has_range(ranges) else None
    sets = shapes_of_sets(model.program, ranges, buckets)
    place = as_place(arguments.place) if arguments.place else default_place()
    check_place(place)
    import_jax()
    from graphopt.models.bundle.write import write_bundle

    notes = write_bundle(model, path, sets, place, buckets, padding=arguments.padding)
    sizes = several(len(sets) - len(notes), "size")
    print(f"wrote {path} ({size(path.stat().st_size)}), compiled for {sizes}")
    for note in notes:
        print(f"note: {note}")
    return 0
