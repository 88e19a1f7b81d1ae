"""Trace: the program of one function for arguments of one kind, ready to run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from traceback import walk_tb
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import nest
from graphopt.frontend.first_values import initialise
from graphopt.frontend.mode import static_mode
from graphopt.frontend.tracing import TracedProgram, converting
from graphopt.ir.program import (
    Program,
    Variable,
    default_main_program,
    program_guard,
    unique_name,
)
from graphopt.ir.program.location import is_users
from graphopt.ir.translate.inference import keep_only, state_written
from graphopt.jit.conversion.calls import convert
from graphopt.jit.held import HeldContents, SharedState
from graphopt.jit.signature import Arguments, as_array
from graphopt.jit.value import RunValue
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.executor import Executor
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.static.input import InputSpec
from graphopt.static.io import save_inference_model


class Trace:
    """The program that a function appends when called with inputs of these specifications.

    `inputs` are the Variables for the InputSpecs among the arguments, `outputs` the function's
    result, a structure of Variables and constants. Raises UnsupportedError when the function
    creates parameters, and as the functions that it calls.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        specs: Arguments,
        sources: Iterable[Program],
        strategy: BuildStrategy,
    ) -> None:
        self._sources = tuple(sources)
        while not self._is_traced(function, specs):
            pass  # a variable had to be split: trace again
        self._check(function)
        self.compile(strategy)
        self._executor = Executor()
        initialise(self.parameters)

    def _is_traced(self, function: Callable[..., Any], specs: Arguments) -> bool:
        """Trace the function; False if the trace must be repeated."""
        held = HeldContents(function)
        self.main_program = TracedProgram((default_main_program(), *self._sources), held)
        self.main_program.random_seed = default_main_program().random_seed
        self.startup_program = Program()
        try:
            names, self.outputs = self._trace(function, specs, held)
        except SharedState:
            return False
        except BaseException as error:
            held.restore()
            if isinstance(error, RecursionError):
                raise _without_end(error) from None
            raise
        # the function may have changed an input's type, which creates another variable
        self.inputs = [self.main_program.global_block().var(name) for name in names]
        if held.leave_unknown(self.main_program):
            self._check_again(function, specs, held)
        return True

    def _trace(
        self, function: Callable[..., Any], specs: Arguments, held: HeldContents
    ) -> tuple[list[str], Any]:
        """Run the function on Variables; return the names of the inputs, and the outputs."""
        programs = program_guard(self.main_program, self.startup_program)
        with static_mode(), programs, converting(convert):
            names, leaves = self._inputs(specs)
            call = specs.with_leaves(leaves)
            outputs = convert(function)(*call.args, **call.kwargs)
            return names, held.write_back(outputs)

    def _check_again(
        self, function: Callable[..., Any], specs: Arguments, held: HeldContents
    ) -> None:
        """Refuse a function that reads a value in a call that only an earlier call creates.

        Its program would be another from the second call on.
        """
        again = copy(self)
        after = HeldContents(function)
        again.main_program, again.startup_program = TracedProgram((), after), Program()
        again.main_program.sources = self.main_program.sources
        try:
            with unique_name.guard():
                again._trace(function, specs, after)
        except BaseException:
            held.restore()
            raise
        after.restore()

    def _inputs(self, specs: Arguments) -> tuple[list[str], list[Any]]:
        """Create the input Variables; return their names, and the leaves with Variables."""
        block = self.main_program.global_block()
        inputs: list[str] = []
        leaves: list[Any] = []
        for name, leaf in zip(specs.names(), specs.leaves, strict=True):
            if isinstance(leaf, InputSpec):
                own = leaf.name or name
                while block.has_var(own):
                    own += "_"
                leaf = block.create_var(
                    own,
                    leaf.shape,
                    leaf.dtype,
                    is_data=True,
                    need_check_feed=True,
                    stop_gradient=leaf.stop_gradient,
                )
                inputs.append(leaf.name)
            leaves.append(leaf)
        return inputs, leaves

    def _check(self, function: Callable[..., Any]) -> None:
        made = [v.name for v in self.startup_program.list_vars() if v.persistable]
        if made:
            name = getattr(function, "__qualname__", repr(function))
            raise UnsupportedError(
                f"{name} creates the parameters {', '.join(made)} in a call; create layers in "
                "__init__, or before the function, and optimizers outside of to_static"
            )

    @property
    def parameters(self) -> list[Variable]:
        """The parameters, buffers and constants from outside that the program uses."""
        return [v for v in self.main_program.list_vars() if v.persistable]

    @property
    def output_variables(self) -> list[Variable]:
        """The Variables among the outputs, in order, including repeated ones."""
        return [leaf for leaf in nest.leaves(self.outputs) if isinstance(leaf, Variable)]

    @property
    def compiled_program(self) -> CompiledProgram:
        """The program with its strategy."""
        return self._compiled

    def compile(self, strategy: BuildStrategy) -> None:
        """Compile with another strategy from now on."""
        self._compiled = CompiledProgram(self.main_program, strategy)

    def save(
        self, prefix: str, inputs: Sequence[Variable], outputs: Sequence[Variable], **options: Any
    ) -> None:
        """Write the part that computes `outputs` and the function's state as a model."""
        program = self.main_program.clone()
        needed = [*(variable.name for variable in outputs), *state_written(program)]
        keep_only(program, [variable.name for variable in inputs], needed)
        options |= {"program": program, "skip_prune_program": True}
        save_inference_model(prefix, inputs, outputs, Executor(), **options)

    def run(self, values: Sequence[Any]) -> Any:
        """Run the program on `values`, in the order of `inputs`; return the outputs with Values."""
        names = zip(self.inputs, values, strict=True)
        feed = {variable.name: as_array(value) for variable, value in names}
        fetches = [variable.name for variable in self.output_variables]
        found = iter(self._executor.run(self._compiled, feed, fetches))
        return nest.map_leaves(
            lambda leaf: RunValue(next(found)) if isinstance(leaf, Variable) else leaf, self.outputs
        )


# the functions generated for branches and loops
_MADE = re.compile(r"_(yes|no|body|test)_\d+")


def _without_end(error: RecursionError) -> UnsupportedError:
    """Compose the error for a function whose trace recurses without end."""
    lines = Counter(
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if is_users(frame.f_code) and not _MADE.fullmatch(frame.f_code.co_name)
    )
    if not lines:
        return UnsupportedError(f"a traced function calls itself endlessly: {error}")
    (file, line, name), _ = lines.most_common(1)[0]
    return UnsupportedError(
        f"{file}:{line}: '{name}' calls itself endlessly while it is traced. Both branches of an "
        "`if` over a tensor are traced, so a tensor cannot end a recursion: end the recursion "
        "with a Python number, or write a `while` loop"
    )
