"""graphopt tune: measure whether oneDNN or XLA runs a model faster on this machine.

A program that runs for long measures this by itself. This command runs the model on its inputs
until the outcome is known, which takes at least 15 seconds. The outcome is stored with the compiled
programs, and later processes start with it.
"""

from __future__ import annotations

import argparse
import time

from graphopt.cli.model_arguments import add_model_arguments

EXAMPLE = "graphopt tune resnet18/model --random --dim 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt tune`."""
    add_model_arguments(parser)
    parser.add_argument(
        "--seconds", type=float, default=120, help="time limit of the runs in seconds (default 120)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Run a model until its kernels are chosen, and print the outcome; return 1 if none is."""
    from graphopt.models.feeds import feed_of
    from graphopt.models.model import import_model
    from graphopt.runtime.executor import Executor
    from graphopt.runtime.settings.flags import KERNELS, full_form, measures_kernels
    from graphopt.runtime.settings.strategy_text import strategy_of
    from graphopt.runtime.steps.policy import NOT_YET

    if not measures_kernels():
        raise ValueError(f"kernels are measured only with {KERNELS}=auto: set this flag")
    model = import_model(arguments.model, arguments.params)
    feed = model.feed(feed_of(model, arguments))
    text = arguments.build_strategy
    executor = Executor()
    compiled = None if text is None else model.optimize(strategy_of(text))
    program, counted = (model.program, executor) if compiled is None else (compiled, compiled)
    begun, form, last = time.monotonic(), "", None
    # another form may be tried from the second run in the full form on
    with full_form():
        while form != last or NOT_YET in form:
            if time.monotonic() - begun > arguments.seconds:
                seconds = arguments.seconds
                print(
                    f"no outcome after {seconds:g} s: {form}. The measuring process has low "
                    f"priority: stop other work on this machine, or give --seconds {2 * seconds:g}"
                )
                return 1
            executor.run(program, feed, model.fetch_names, scope=model.scope)
            last, form = form, next(reversed(counted.stats.get("tiers", {})), "")
    print(form)
    if "oneDNN" in form:
        return 0
    print(
        "nothing was compared: oneDNN is used only on a single CPU device, and only if runs may "
        "differ in bits"
    )
    return 1
