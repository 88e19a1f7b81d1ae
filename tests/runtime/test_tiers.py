"""Programs in two forms: the first one, their equal numbers, and the change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.debug.compare import assert_same_results
from graphopt.display import progress
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import alone
from graphopt.nn import functional as F
from graphopt.passes.fusions.fuse_bn_act import FuseBnAct
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.table.report import PASSES, time_rows
from graphopt.reference.stored import by_variable, stored_inputs
from graphopt.runtime.settings.flags import TIER, full_form
from graphopt.runtime.state import generator
from graphopt.runtime.steps import forms, policy
from graphopt.runtime.steps.xla_forms import XlaForms, quickly
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.runtime.nets import Net, build, close, value

Array = np.ndarray[Any, Any]
# the effort of users, where test runs make little
WELL = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Treat every program as large, without NumPy or a seed, and run background work at once."""
    monkeypatch.setattr(policy, "SMALL", 0)
    monkeypatch.setattr(policy, "TINY", 1 << 30)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(generator.default_generator(), "seeded", False)
    paddle.set_flags({TIER: "auto"})
    yield
    paddle.set_flags({TIER: "full"})


def network() -> Net:
    """Build a small network that trains with dropout and momentum."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        hidden = F.dropout(static.nn.fc(x, 16, activation="relu"), 0.5)
        loss = paddle.mean(paddle.square(static.nn.fc(hidden, 1)))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, hidden

    unseeded(3)
    return build(make)


def unseeded(start: int) -> None:
    """Start random numbers at a known place, without marking them as seeded."""
    paddle.seed(start)
    generator.default_generator().seeded = False


def form_of(executor: Any) -> str:
    """Return the form that an executor or a compiled program compiled last."""
    return list(executor.stats["tiers"])[-1]


def feed(rows: int = 6) -> dict[str, Array]:
    return {"x": np.random.default_rng(rows).normal(size=(rows, 4)).astype("float32")}


@pytest.mark.exhaustive
def test_a_training_goes_on_exactly_where_it_was() -> None:
    """Losses, dropouts and weights equal the full form's alone; the form changes at run 3."""
    runs: dict[str, list[Any]] = {}
    for tier in ("full", "auto", "fast"):
        paddle.set_flags({TIER: tier})
        with static.scope_guard(static.Scope()):
            net = network()
            found: list[Any] = [net.run(feed(), net.loss)[0] for _ in range(5)]
            found += [value(p.name) for p in net.main.all_parameters()]
        runs[tier] = found
        (form, *_) = [text for text in net.executor.stats["tiers"] if "startup" not in text][-1:]
        assert form.startswith("fast: it was" if tier == "fast" else "full:"), form
        assert ("from run 3 on" in form) is (tier == "auto")
    for wanted, *others in zip(*runs.values(), strict=True):
        for other in others:
            close(other, wanted)


def seeded(monkeypatch: pytest.MonkeyPatch) -> Net:
    """Build a network that trains from a seed, its first three runs in the quick form."""
    monkeypatch.setattr(policy, "SEEDED_RUNS", 3)
    monkeypatch.setattr(policy, "SEEDED_RUNS_PER_OP", 0)
    net = network()
    net.main.random_seed = 5
    return net


def forms_of(net: Net, runs: int) -> tuple[str, list[bytes]]:
    """Run some steps; return the forms' first letters and the losses."""
    names, losses = "", list[bytes]()
    for _ in range(runs):
        losses.append(net.run(feed(), net.loss)[0].tobytes())
        names += form_of(net.executor)[:2]
    return names, losses


def forked(work: Any) -> None:
    """Mark the work as another process's, like in a child of its process."""
    work._process = work._full_maker = -1


@pytest.mark.every(3)
@pytest.mark.parametrize("when", ["at once", "never", "in a parent"])
def test_a_seeded_training_counts_its_quick_runs(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form changes at a fixed run, whether the thread is ready before or after it."""
    if when != "at once":
        monkeypatch.setattr(forms, "submit", forked if when == "in a parent" else lambda _: None)
    names, _ = forms_of(seeded(monkeypatch), 5)
    assert names == "fafafafufu"


def test_a_seeded_training_says_what_it_compiles_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first steps have a line, and so have the later ones, for which a caller waits."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(forms, "submit", lambda _: None)
    net = seeded(monkeypatch)
    capsys.readouterr()
    forms_of(net, 5)
    first, later = capsys.readouterr().err.splitlines()
    assert first.endswith(
        " with feeds x [6, 4] for the first steps, with XLA's least effort (new program) ..."
    )
    assert later.startswith("graphopt: compiling the same program of ")
    assert later.endswith(" with feeds x [6, 4] for all later steps, with XLA's full effort ...")


@pytest.mark.exhaustive
def test_a_training_that_is_resumed_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a script reads or writes the trained state, the full form runs.

    So a process that resumes from a checkpoint has the bits of the process that wrote it.
    """
    net = seeded(monkeypatch)
    names, _ = forms_of(net, 2)
    drawn = generator.default_generator()._step
    kept = {name: value(name) for name in global_names(net)}
    more, wanted = forms_of(net, 2)
    assert names + more == "fafafufu"
    with static.scope_guard(static.Scope()):
        net.executor = static.Executor()
        net.executor.run(net.startup)
        for name, array in kept.items():
            static.global_scope().var(name).get_tensor().set(array)
        generator.default_generator()._step = drawn
        assert forms_of(net, 2) == ("fufu", wanted)


def global_names(net: Net) -> list[str]:
    """List the persistable variables of a program."""
    return [v.name for v in net.main.list_vars() if v.persistable]


@pytest.mark.slow
def test_the_same_numbers() -> None:
    """The two forms of random training programs agree within the tolerance of a fusion."""

    @settings(max_examples=examples(3))
    @given(programs(plant=[*FuseGemmEpilogue.RULES, *FuseBnAct.RULES]))
    def check(generated: Generated) -> None:
        quick = generated.module.clone()

        def run(module: ModuleOp, inputs: dict[str, Array]) -> dict[str, Array]:
            return run_with(quickly(None) if module is quick else WELL, module, inputs)

        assert_same_results(generated.module, quick, run=run)

    check()


def run_with(
    options: dict[str, Any], module: ModuleOp, inputs: dict[str, Array]
) -> dict[str, Array]:
    """Compile a module by XLA with these options, and return its results."""
    given, plan = stored_inputs(module, inputs), Plan.of(module)
    ports = plan.updated, plan.read_only, plan.feeds
    arguments = (*(tuple(given[p.name] for p in group) for group in ports), np.zeros(2, "uint32"))
    with jax.enable_x64(True):
        function = alone(module, plan, jax.devices("cpu")[0], donate=False).function
        fetches, written = function.lower(*arguments).compile(options)(*arguments)
    arrays = map(np.array, (*fetches, *written))
    results = zip((*plan.fetches, *plan.written), arrays, strict=True)
    return by_variable(module, {f"{p.kind} {p.name}": array for p, array in results})


def test_a_size_that_never_comes_again_has_no_second_form() -> None:
    net = infer()
    for rows in (1, 2, 3):
        net.run(feed(rows), net.out)
    assert net.executor.stats["tiers"] == {"fast: a second run has the full form compiled": 3}


def test_explain_ends_with_the_forms() -> None:
    """Each form has a line, with the number of sizes that run in it."""
    net = infer()
    compiled = static.CompiledProgram(net.main)
    for rows in (1, 2):
        net.executor.run(compiled, feed=feed(rows), fetch_list=[net.out])
    last = compiled.explain().splitlines()[-1]
    assert last == "2 sizes of feeds in the fast form: a second run has the full form compiled"
    assert "of feeds in the" not in compiled.explain("all")


def infer() -> Net:
    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        return x, paddle.exp(paddle.tanh(x))

    return build(make)


def test_a_full_form_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick form continues to run, and one warning says so."""
    make = XlaForms.make

    def failing(self: XlaForms, name: str) -> Any:
        if name == "full":
            raise RuntimeError("no more memory")
        return make(self, name)

    monkeypatch.setattr(XlaForms, "make", failing)
    net = infer()
    wanted = net.run(feed(), net.out)
    net.run(feed(), net.out)
    with pytest.warns(UserWarning, match=r"keeps its slower fast form.*no more memory"):
        net.run(feed(), net.out)
    for _ in range(2):  # warnings are errors here
        close(net.run(feed(), net.out)[0], wanted[0])
    assert form_of(net.executor) == "fast: the full form did not compile: no more memory"


@pytest.mark.exhaustive
def test_programs_with_one_form() -> None:
    """The report gives the reason for a single form."""

    def reason(net: Net, program: Any = None) -> str:
        source = net.executor if program is None else program
        net.run(feed(), net.loss, program)
        return form_of(source)

    net = network()
    assert "several devices" in reason(net, net.parallel(2))
    paddle.set_flags({"FLAGS_cpu_deterministic": True})
    try:
        assert "the same bits" in reason(network())
    finally:
        paddle.set_flags({"FLAGS_cpu_deterministic": False})
    policy.SMALL = 1000
    assert "small" in reason(network())


@pytest.mark.exhaustive
def test_the_time_of_each_form() -> None:
    """Both forms come from one lowered program: traced once, compiled twice."""
    net = network()
    for _ in range(3):
        net.run(feed(), net.loss)
    (compiled,) = (c for c in net.executor._runner.all_compiled() if c.plan.feeds)
    rows = [(row.kind, row.of) for row in time_rows(compiled.report) if row.kind != PASSES]
    made = [("trace", "x [6, 4]"), ("lower", "x [6, 4]")]
    forms = [("XLA", "x [6, 4], quick form"), ("XLA", "x [6, 4]")]
    assert rows == [("parse", ""), *made, *forms]


def test_an_unknown_form() -> None:
    paddle.set_flags({TIER: "quick"})
    net = infer()
    with pytest.raises(ValueError, match="should be host, fast, full or auto, found 'quick'"):
        net.run(feed(), net.out)


def test_what_is_measured_has_one_form() -> None:
    net = network()
    with full_form():
        net.run(feed(), net.loss)
    assert form_of(net.executor).startswith("full: it was requested")


@pytest.mark.exhaustive
def test_two_executors_and_scopes() -> None:
    """Each executor has its own forms, and each scope its own state."""
    net = network()
    other, scope = static.Executor(), static.Scope()
    unseeded(1)
    other.run(net.startup, scope=scope)
    for _ in range(4):
        net.run(feed(), net.loss)
        other.run(net.main, feed=feed(), fetch_list=[net.loss], scope=scope)
    for runner in (net.executor, other):
        assert "from run 3 on" in form_of(runner)
