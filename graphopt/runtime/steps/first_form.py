"""The form with which a step begins: from disk, by NumPy, compiled quickly, or compiled well.

JAX is imported when a form is loaded or compiled, so not for what NumPy computes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from graphopt.lowering.needs_data import NeedsData
from graphopt.lowering.plan import Plan, Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.seen import came_before
from graphopt.runtime.host.failures import GivenUp, HostFailure
from graphopt.runtime.settings.flags import AUTO, FULL, HOST, tier_flag
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.state.arrays import FedArrays, Step
from graphopt.runtime.steps.active_form import ActiveForm, Instead
from graphopt.runtime.steps.tiers import Successor, Tier, tier_of

if TYPE_CHECKING:
    from graphopt.ir.dialect.signature import Port
    from graphopt.runtime.steps.forms import Form
    from graphopt.runtime.steps.rivals import Rival

FedTypes: TypeAlias = "list[tuple[tuple[int, ...], Any]]"
PATIENCE = 0.5
"""The part of the time of compiling that the host form takes before that is done, in a thread."""


class Beginning:
    """The choice of the form of a step that runs first.

    `arguments` gives the arguments of the step or their types, `sizes` are those of the feeds in
    words, and `announced` reports a compilation.
    """

    def __init__(
        self,
        compiled: Compiled,
        replicated: Replicated,
        arguments: Callable[[], Any],
        sizes: str,
        announced: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._compiled = compiled
        self._replicated = replicated
        self._arguments = arguments
        self._sizes = sizes
        self._announced = announced
        self._made: tuple[Form, Form] | None = None
        self._lock = threading.Lock()

    def form(self, fed: FedArrays, *, is_first: bool) -> ActiveForm:
        """The form for these feeds, which are the first of their program or not.

        Raises NeedsData, and what compiling raises.
        """
        compiled, replicated, elements = self._compiled, self._replicated, _elements(fed)
        tier = tier_of(compiled, replicated, elements) if compiled.is_new else None
        if tier is not None and tier.name == HOST and _sizes_are_known(compiled.plan):
            types = [(array.shape, array.dtype) for array in fed if not isinstance(array, list)]
            self._arguments = partial(_types_of_plan, compiled.plan, replicated.place, types)
        else:
            given = self._arguments()
            self._arguments = lambda: given
        if not compiled.is_new and tier_flag() in (AUTO, FULL):
            found = self._forms()[0].load()
            if found is not None:
                return self._active(found, Tier(FULL, "it was on disk"))
        tier = tier or tier_of(compiled, replicated, elements)
        if tier.name == HOST:
            again = is_first and tier_flag() == AUTO and self._shall_be_kept(fed)
            return self._on_host(tier, elements, at_once=again)
        full, quick = self._forms()
        with self._announced():
            if tier.name == FULL:
                return self._active(full.load() or full.make(), tier)
            function = quick.load() or quick.make()
        return self._active(function, tier, Successor(full.make) if tier.name == AUTO else None)

    def _shall_be_kept(self, fed: FedArrays) -> bool:
        """True for feeds that another process met, too, of a program without loops.

        Sizes may change in a loop: then there is no compiled program to keep.
        """
        from graphopt.runtime.host.form import has_loops

        return not has_loops(self._compiled) and came_before(self._compiled, fed)

    def _forms(self) -> tuple[Form, Form]:
        """The full and the quick form, of which neither is compiled yet."""
        import_jax()
        from graphopt.runtime.steps.forms import forms_of

        with self._lock:  # a thread may compile one form while another one is needed
            if self._made is None:
                given = self._compiled, self._replicated, self._arguments(), self._sizes
                self._made = forms_of(*given)
        return self._made

    def _active(
        self,
        function: Step,
        tier: Tier,
        successor: Successor[Step] | None = None,
        instead: Instead | None = None,
    ) -> ActiveForm:
        # none of these functions keeps this, and with it what is lowered
        compiled, replicated = self._compiled, self._replicated
        arguments, sizes = self._arguments, self._sizes

        def challenger(form: object) -> Rival | None:
            from graphopt.runtime.steps.challenge import rival_of

            return rival_of(compiled, replicated, arguments(), sizes, form)

        rivalled = challenger if replicated.name == "alone" else None
        return ActiveForm(function, compiled.prepare, tier, successor, rivalled, instead)

    def _on_host(self, tier: Tier, elements: int, *, at_once: bool) -> ActiveForm:
        """The host form, and its successor, which is compiled `at_once` after the first run."""
        from graphopt.runtime.host.form import HostForm, price_of

        compiled = self._compiled

        def make() -> Step:
            try:
                return self._forms()[0].make()
            except NeedsData:
                from graphopt.runtime.host.op_by_op import op_by_op_or_host

                step, successor.said = op_by_op_or_host(compiled, host)
                return step

        def instead(error: HostFailure) -> Step | None:
            """A compiled form; after a run that took too long only one that may take less."""
            function = self._quick()
            if not isinstance(error, GivenUp):
                return function or compiled.by_op().function
            if function is None:
                host.price = math.inf
            else:
                compiled.slow_elements = min(compiled.slow_elements, elements)
            return function

        def spent(seconds: float) -> None:
            successor.spend(seconds)
            if at_once:
                successor.start()

        host = HostForm(compiled, spent)
        patience = PATIENCE * price_of(compiled)
        successor = Successor(make, lambda: active.tier(), patience=patience)
        keeps = tier_flag() == AUTO
        active = self._active(host, tier, successor if keeps else None, instead)
        return active

    def _quick(self) -> Step | None:
        """The quick form; the one op by op where sizes depend on data, None if that helps not."""
        try:
            with self._announced():
                quick = self._forms()[1]
                return quick.load() or quick.make()
        except NeedsData:
            from graphopt.runtime.host.op_by_op import op_by_op

            return op_by_op(self._compiled)


def _sizes_are_known(plan: Plan) -> bool:
    """True where the program declares all sizes of the state that it reads."""
    return all(size >= 0 for port in (*plan.read_only, *plan.prepared) for size in port.shape)


def _types_of_plan(plan: Plan, place: Callable[[Port], Any], types: FedTypes) -> Any:
    """The types of the arguments of a step that updates nothing, for feeds of these types."""
    import jax

    given = jax.ShapeDtypeStruct
    read_only = (*plan.read_only, *plan.prepared)
    state = [given(p.shape, p.dtype.numpy, sharding=place(p)) for p in read_only]
    fed = [given(shape, dtype) for shape, dtype in types]
    return (), tuple(state), tuple(fed), given((2,), "uint32")


def _elements(fed: FedArrays) -> int:
    """The number of elements of feeds."""
    return sum(_elements(tuple(one)) if isinstance(one, list) else one.size for one in fed)
