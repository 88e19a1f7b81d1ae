"""Scopes: where values are stored, which remain after runs, and writes in data-parallel runs."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt import static
from graphopt.errors import LengthsError, ScopeError
from graphopt_tests.runtime.nets import close, fc_mean, rows, value, write

FEED = rows(0, 1, 2, 3)


def test_lookup_goes_to_the_parents() -> None:
    """`var` is local, `find_var` searches parents, and unknown names are None."""
    scope = static.Scope()
    kid = scope.new_scope()
    slot = scope.var("a")
    assert kid.find_var("a") is slot and scope.find_var("b") is None
    own = kid.var("a")
    assert own is not slot and kid.find_var("a") is own and scope.var("a") is slot
    scope.drop_kids()
    assert scope._kids == []


def test_values_before_the_first_write() -> None:
    """A variable may exist without a value: as an array it is empty, as in Paddle."""
    slot = static.Scope().var("a")
    tensor = slot.get_tensor()
    assert not slot.is_initialized() and not tensor._is_initialized()
    assert tensor.shape() == list(np.array(tensor).shape) == [0]
    with pytest.raises(ScopeError, match=r"'a' has no value.*startup_program"):
        tensor.numpy()


def test_a_tensor_keeps_lengths() -> None:
    """Lengths stay with the variable, as offsets or as lengths."""
    slot = static.Scope().var("a")
    slot.get_tensor().set(np.zeros((5, 2)))
    slot.get_tensor().set_lod([[0, 2, 5]])
    tensor = slot.get_tensor()
    assert tensor._get_dims() == [5, 2]
    assert tensor.recursive_sequence_lengths() == [[2, 3]] and tensor.lod() == [[0, 2, 5]]
    assert tensor.has_valid_recursive_sequence_lengths()
    with pytest.raises(LengthsError, match=r"\[\[4\]\] are not valid sequence lengths for 'a'"):
        tensor.set_recursive_sequence_lengths([[4]])
    tensor.set(np.zeros((4, 2)))
    assert not slot.get_tensor().has_valid_recursive_sequence_lengths()
    with pytest.raises(ValueError, match=r"\[\[2, 1\], \[3, 1\]\] are not valid sequence lengths"):
        tensor.set_recursive_sequence_lengths([[2, 1], [3, 1]])
    assert tensor.recursive_sequence_lengths() == [[2, 3]]


def test_scope_guard_restores() -> None:
    """The scope is restored, also after an exception; other objects are refused."""
    outer = static.global_scope()
    inner = static.Scope()
    with pytest.raises(ZeroDivisionError), static.scope_guard(inner):
        assert static.global_scope() is inner
        raise ZeroDivisionError
    assert static.global_scope() is outer
    with pytest.raises(TypeError, match="Scope"), static.scope_guard("scope"):  # pyright: ignore
        pass


@pytest.mark.parametrize("devices", [0, 2])
def test_only_persistable_variables_stay(devices: int) -> None:
    """Temporaries and feeds do not remain in the scope."""
    net = fc_mean()
    net.run(FEED, net.loss, net.parallel(devices) if devices else None)
    scope = static.global_scope()
    for name in ("X", net.loss.name, net.out.name, "w@GRAD"):
        assert scope.find_var(name) is None
    assert scope.find_var("w") is not None and scope.find_var("learning_rate_0") is not None


def test_fed_state_stays() -> None:
    """As in Paddle, fed state stays for later runs, also without operators."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x, kept = static.data("x", [2], "float32"), static.data("kept", [2], "float32")
        kept.persistable = True
        w = static.create_parameter([2], "float32", name="w")
    exe, ones = static.Executor(), np.ones(2, "float32")
    with static.scope_guard(static.Scope()):
        with pytest.warns(UserWarning, match="no operators"):
            assert exe.run(main, {"kept": ones * 3}, []) == []
        np.testing.assert_array_equal(value("kept"), [3.0, 3.0])
        with static.program_guard(main, startup):
            out = x * w + kept
        exe.run(startup)
        fed = {"x": ones, "w": ones * 7, "kept": ones * 4}
        np.testing.assert_array_equal(exe.run(main, fed, [out])[0], [11.0, 11.0])
        np.testing.assert_array_equal(value("w"), [7.0, 7.0])
        np.testing.assert_array_equal(exe.run(main, {"x": ones}, [out])[0], [11.0, 11.0])


def test_writes_are_copies() -> None:
    """A write copies the caller's array."""
    net = fc_mean()
    mine = np.array([[5.0]], "float32")
    slot = static.global_scope().find_var("w")
    assert slot is not None
    slot.get_tensor().set(mine, net.executor.place)
    mine[:] = 0
    close(value("w"), [[5.0]])
    np.array(slot.get_tensor())[:] = 7
    close(value("w"), [[5.0]])


def test_values_that_do_not_fit() -> None:
    """A wrong dtype or shape in the scope is an error that names both."""
    net = fc_mean()
    slot = static.global_scope().find_var("w")
    assert slot is not None
    slot.get_tensor().set(np.zeros((1, 1)))
    with pytest.raises(ScopeError, match=r"'w' is float32 \[1, 1\].*float64 \[1, 1\]"):
        net.run(FEED, net.loss)
    slot.get_tensor().set(np.zeros((2, 1), "float32"))
    with pytest.raises(ScopeError, match=r"'w'.*float32 \[2, 1\]"):
        net.run(FEED, net.loss, net.parallel(2))


@pytest.mark.parametrize("count", [4, 3])
def test_every_device_sees_writes(count: int) -> None:
    """Every device sees a write, with even and uneven batches; in Paddle only device 0 does."""
    net = fc_mean(rate=1.0)
    program = net.parallel(2)
    feed = rows(*[1.0] * count)
    net.run(feed, net.loss, program)
    write("w", [[10.0]])
    close(net.run(feed, net.loss, program)[0], [10.0, 10.0])
    close(value("w"), [[9.0]])


def test_every_device_sees_a_new_start() -> None:
    """Running the startup program again sets all replicas."""
    net = fc_mean()
    program = net.parallel(2)
    for _ in range(2):
        net.run(FEED, net.loss, program)
    net.start()
    close(net.run(FEED, (net.loss, "w"), program)[0], [1.0, 5.0])
    close(value("w"), [[1.85]])


def test_programs_take_turns() -> None:
    """Plain, data-parallel, uneven and test programs always use the newest weights."""
    net = fc_mean()
    test = net.main.clone(for_test=True)
    parallel, wider = net.parallel(2), net.parallel(4)
    test_program = static.CompiledProgram(test).with_data_parallel(
        places=static.cpu_places(2), share_vars_from=None
    )
    weight = 2.0
    turns = [None, parallel, (parallel, rows(0, 1, 5)), wider, None, wider, parallel]
    for turn in turns:
        program, feed = turn if isinstance(turn, tuple) else (turn, FEED)
        gradient = 2.75 if isinstance(turn, tuple) else 1.5
        net.run(feed, (), program)
        weight -= 0.1 * gradient
        close(value("w"), [[weight]])
        wanted = np.arange(4).reshape(4, 1) * weight
        close(net.run(FEED, net.out, test)[0], wanted)
        close(net.run(FEED, net.out, test_program)[0], wanted)
        close(net.run(rows(0, 1, 2), net.out, test_program)[0], wanted[:3])


def test_reading_programs_leave_the_state_in_place() -> None:
    """A test program on other devices makes a copy; training keeps its own arrays."""
    net = fc_mean()
    test = net.main.clone(for_test=True)
    program = net.parallel(2)
    net.run(FEED, (), program)
    slot = static.global_scope().find_var("w")
    assert slot is not None
    trained = slot.value
    for _ in range(2):
        net.run(FEED, net.out, test)
        assert slot.value is trained
    copied = slot.copy[2]
    net.run(FEED, net.out, test)
    assert slot.copy[2] is copied
    net.run(FEED, (), program)
    close(net.run(FEED, net.out, test)[0], [[0], [1.7], [3.4], [5.1]])


def test_parents_hold_shared_state() -> None:
    """A run in a child scope updates the parent's variable."""
    net = fc_mean()
    net.run(FEED, scope=static.global_scope().new_scope())
    close(value("w"), [[1.85]])
