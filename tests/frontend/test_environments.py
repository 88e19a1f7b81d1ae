"""Environment variables that hold one kind of value (paddle.utils.environments)."""

from __future__ import annotations

from typing import Any

import pytest

from graphopt.utils import environments as env

NAME = "GRAPHOPT_TEST_OF_ENVIRONMENTS"


@pytest.mark.parametrize(
    ("kind", "default", "value", "text"),
    [
        (env.StringEnvironmentVariable, "a", "b,c", "b,c"),
        (env.BooleanEnvironmentVariable, True, False, "false"),
        (env.IntegerEnvironmentVariable, 3, -4, "-4"),
        (env.StringListEnvironmentVariable, ["a"], ["b", "c"], "b,c"),
    ],
)
def test_a_variable_is_written_and_read(
    kind: Any, default: Any, value: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable has its default until it is set, and follows the environment."""
    monkeypatch.setenv(NAME, text)
    variable = kind(NAME, default)
    assert variable.get() == value and repr(variable) == f"Env({NAME}={value!r})"
    with env.EnvironmentVariableGuard(variable, default) as guard:
        assert variable.get() == default and guard.original_value == value
    assert variable.get() == value
    variable.delete()
    assert variable.get() == default
    with pytest.raises(AssertionError, match=f"value must be of type {kind.kind.__name__}"):
        variable.set(2.5)
    with pytest.raises(AssertionError, match="default must be of type"):
        kind(NAME, None)


def test_words_for_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Booleans are Paddle's words; a boolean variable itself has no truth value."""
    assert [env.strtobool(word) for word in ("Yes", "on", "1", "N", "off")] == [True] * 3 + [
        False
    ] * 2
    with pytest.raises(ValueError, match="Invalid truth value 'maybe'"):
        env.strtobool("Maybe")
    with pytest.raises(ValueError, match="please use get"):
        bool(env.BooleanEnvironmentVariable(NAME, True))
    monkeypatch.setenv(NAME, "three")
    assert env.IntegerEnvironmentVariable(NAME, 3).get() == 3
    with pytest.raises(AssertionError, match="default must be of type int, found True"):
        env.IntegerEnvironmentVariable(NAME, True)
