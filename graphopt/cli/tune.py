"""graphopt tune: measure whether oneDNN or XLA is quicker at a model on this machine.

A program that runs for long measures this by itself. Here the model runs on its inputs until the
outcome is known, which takes a quarter of a minute or more. It is stored beside the compiled
programs, and later processes begin with it.
"""

from __future__ import annotations

import argparse
import time

from graphopt.models.feeds import add_feed_arguments, feed_of
from graphopt.runtime.settings.strategy_text import strategy_of

EXAMPLE = "graphopt tune resnet18/model --random --dim 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `graphopt tune`."""
    parser.add_argument("model", metavar="MODEL", help="a model file, its prefix, or its folder")
    parser.add_argument(
        "--params", metavar="P", help="the parameters, when not in the folder of the model"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="X.npz",
        help="inputs by name; or NAME=X.npy, also for several",
    )
    add_feed_arguments(parser)
    parser.add_argument(
        "--build-strategy", metavar="FLAG=VALUE,...", help="the optimisations (a bare flag means 1)"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="the most seconds of runs (default 120)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Run a model until its kernels are chosen, and print the outcome; 1 if there is none."""
    from graphopt.models.model import import_model
    from graphopt.runtime.executor import Executor
    from graphopt.runtime.settings.flags import FAST, KERNELS, measures_kernels
    from graphopt.runtime.steps.rivals import NOT_YET

    if not measures_kernels():
        raise ValueError(f"nothing is measured here: set {KERNELS}=auto")
    model = import_model(arguments.model, arguments.params)
    feed = feed_of(model, arguments)
    text = arguments.build_strategy
    executor = Executor()
    compiled = None if text is None else model.optimize(strategy_of(text))
    program, counted = (model.program, executor) if compiled is None else (compiled, compiled)
    begun, form, last = time.monotonic(), "", None
    # the run after one that finds the full form is the first that may have another to try
    while form != last or NOT_YET in form or form.startswith(FAST):
        if time.monotonic() - begun > arguments.seconds:
            print(f"no outcome after {arguments.seconds:g} s: {form}")
            return 1
        executor.run(program, feed, model.fetch_names, scope=model.scope)
        last, form = form, next(reversed(counted.stats.get("tiers", {})), "")
    print(form)
    return 0
