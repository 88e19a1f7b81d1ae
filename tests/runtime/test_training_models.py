"""Saved training programs against Paddle's recorded losses and state.

All training programs of a corpus are tested, too, if one is given (see model_files.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from graphopt import static
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.formats import read_program, write_program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests import model_files
from graphopt_tests.runtime.nets import strategy
from graphopt_tests.runtime.training_models import (
    Recorded,
    check_outputs,
    check_state,
    load,
    run,
    training_cases,
)

FUSIONS = [name for name in BuildStrategy.all_settings() if name.startswith(("fuse_", "fused_"))]
CASES = training_cases()
EVERY_CASE = pytest.mark.parametrize("name", CASES)
# for what does not depend on the network, the programs that are kept here
FEW_CASES = pytest.mark.parametrize(
    "name", [name for name, saved in CASES.items() if saved.case.parent == model_files.MODELS]
)
MLP = "train_mlp_sgd"


def is_for_two_devices(recorded: Recorded) -> bool:
    """True for a program whose losses were recorded for each of two devices."""
    return all(np.size(output[0]) == 2 for output in recorded.outputs)


def fused(recorded: Recorded) -> CompiledProgram:
    """Compile the program with every fusion."""
    return CompiledProgram(recorded.main, strategy(**dict.fromkeys(FUSIONS, True)))


def parallel(recorded: Recorded) -> CompiledProgram:
    """Compile the program for two devices."""
    return CompiledProgram(recorded.main).with_data_parallel(
        loss_name=recorded.loss, places=static.cpu_places(2)
    )


@pytest.mark.every(5)
@EVERY_CASE
def test_recorded_numbers(name: str) -> None:
    """Numbers agree, plain and with every fusion; the loaded program does not change."""
    recorded = load(CASES[name])
    before = repr(recorded.main)
    for program in (recorded.main, fused(recorded)):
        found, state = run(recorded, program)
        if not is_for_two_devices(recorded):
            check_outputs(recorded, found)
        check_state(recorded, state)
    assert repr(recorded.main) == before


@pytest.mark.every(5)
@FEW_CASES
def test_from_the_startup_program(name: str) -> None:
    """The saved startup program gives a state from which training runs."""
    recorded = load(CASES[name])
    recorded.feeds[1:] = []
    found, state = run(recorded, start=True)
    assert all(np.isfinite(array).all() for array in (*found[0], *state.values()))


@pytest.mark.every(5)
@FEW_CASES
def test_on_two_devices(name: str) -> None:
    """Training agrees if rows divide evenly and no op reads the whole batch."""
    recorded = load(CASES[name])
    block = recorded.main.global_block()
    if any(block.var(feed).shape[0] >= 0 for feed in recorded.feeds[0]):
        pytest.skip("the program says how many rows there are")
    found, state = run(recorded, parallel(recorded), fetches=[recorded.loss])
    assert all(np.isfinite(step[0]).all() for step in found)
    if is_for_two_devices(recorded):
        check_outputs(recorded, found)
    # of a batch norm each device has its own statistics
    normalises = any(op.type == "batch_norm" for op in block.ops)
    rows = {len(array) for feed in recorded.feeds for array in feed.values()}
    if not normalises and all(count % 2 == 0 for count in rows):
        check_state(recorded, state)


@EVERY_CASE
def test_raised_to_one_derivative(name: str) -> None:
    """These programs equal autodiff's: no gradient operator remains."""
    recorded = load(CASES[name])
    module = parse_program(recorded.main, recorded.feeds[0], recorded.fetches)
    grads = [op for op in module.walk() if isinstance(op, Grad)]
    assert any(grad.attr("parameters") for grad in grads)
    assert not any(isinstance(op, Vjp) for op in module.walk())


@EVERY_CASE
def test_saving_keeps_paddles_operators(name: str) -> None:
    """Raising happens in the compiler; the program does not change."""
    recorded = load(CASES[name])
    parse_program(recorded.main, recorded.feeds[0], recorded.fetches)
    again = read_program(write_program(recorded.main))
    assert repr(again) == repr(recorded.main)


def test_fusions_fire() -> None:
    """The forward operators can be fused, as no other operator reads them."""
    recorded = load(CASES[MLP])
    program = fused(recorded)
    run(recorded, program)
    (compiled,) = program._compiled_programs()
    assert len(compiled.report.applied("fuse-gemm-epilogue")) == 2, program.explain()


def test_a_loss_of_another_name() -> None:
    """Data parallelism detects which variable a saved program differentiates."""
    recorded = load(CASES[MLP])
    with pytest.raises(ValueError, match=recorded.loss):
        program = CompiledProgram(recorded.main).with_data_parallel(
            loss_name="fc_1.tmp_1", places=static.cpu_places(2)
        )
        run(recorded, program)


@pytest.mark.exhaustive
def test_customized_seed() -> None:
    """The gradient of the loss can be fed instead of the saved constant."""
    recorded = load(CASES[MLP])
    recorded.feeds = [{**feed, f"{recorded.loss}@GRAD": None} for feed in recorded.feeds[:1]]
    count = 2
    for feed in recorded.feeds:
        feed[f"{recorded.loss}@GRAD"] = np.full((count,), 1.0 / count, np.float32)
    program = CompiledProgram(recorded.main).with_data_parallel(
        loss_name=recorded.loss,
        build_strategy=strategy(gradient_scale_strategy="Customized"),
        places=static.cpu_places(count),
    )
    _, fed = run(recorded, program)
    plain = load(CASES[MLP])
    plain.feeds[1:] = []
    _, usual = run(plain)
    for name, value in usual.items():
        np.testing.assert_allclose(fed[name], value, rtol=1e-4, atol=1e-6)


def test_further_gradients_of_a_saved_program() -> None:
    """`static.gradients` works on a program with explicit gradient operators."""
    recorded = load(CASES[MLP])
    recorded.feeds[1:] = []
    block = recorded.main.global_block()
    block.var("x").stop_gradient = False
    with static.program_guard(recorded.main, recorded.startup):
        (gradient,) = static.gradients(block.var(recorded.loss), block.var("x"))
    found, _ = run(recorded, fetches=[gradient.name, "fc_0.tmp_1@GRAD"])
    gradient_of_x, gradient_of_hidden = found[0]
    weight = recorded.before["fc_0.w_0"]
    np.testing.assert_allclose(gradient_of_x, gradient_of_hidden @ weight.T, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("roles", [True, False])
def test_clone_for_test(roles: bool) -> None:
    """The clone has no backward pass and no updates, even if no operator has a role."""
    recorded = load(CASES[MLP])
    for op in recorded.main.global_block().ops:
        if not roles:
            del op.attrs["op_role"]
    clone = recorded.main.clone(for_test=True)
    assert not any("grad" in op.type or op.type == "sgd" for op in clone.global_block().ops)
    found, state = run(recorded, clone)
    np.testing.assert_allclose(found[0][0], recorded.outputs[0][0], rtol=1e-4)
    np.testing.assert_array_equal(state["fc_0.w_0"], recorded.before["fc_0.w_0"])
