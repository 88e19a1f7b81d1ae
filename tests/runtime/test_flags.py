"""Names, types and defaults of Paddle's flags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import graphopt as paddle
from graphopt.errors import FlagError
from graphopt.runtime.settings import flags
from graphopt.runtime.settings.flag_table import FLAGS


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Reset the flags after a test."""
    saved = dict(flags._set)
    flags._set.clear()
    yield
    flags._set.clear()
    flags._set.update(saved)


def test_known_flags_have_paddles_defaults() -> None:
    """Every flag has a value and describes its effect here."""
    names = [f"FLAGS_{name}" for name in FLAGS]
    assert paddle.get_flags(["FLAGS_allocator_strategy", "FLAGS_eager_delete_tensor_gb"]) == {
        "FLAGS_allocator_strategy": "auto_growth",
        "FLAGS_eager_delete_tensor_gb": 0.0,
    }
    assert len(paddle.get_flags(names)) == len(names)
    assert all(flag.effect for flag in FLAGS.values())


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("check_nan_inf", 2, True),
        ("check_nan_inf", None, False),
        ("check_nan_inf_level", True, 1),
        ("eager_delete_tensor_gb", 1, 1.0),
        ("allocator_strategy", "naive_best_fit", "naive_best_fit"),
    ],
)
def test_values_are_converted_as_in_paddle(name: str, value: Any, kept: Any) -> None:
    """Numbers and None become a bool, ints a float."""
    paddle.set_flags({f"FLAGS_{name}": value})
    (found,) = paddle.get_flags(f"FLAGS_{name}").values()
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("check_nan_inf", "maybe"),
        ("check_nan_inf_level", 1.5),
        ("eager_delete_tensor_gb", "0.5"),
        ("allocator_strategy", 3),
        ("paddle_num_threads", None),
    ],
)
def test_values_of_another_type_are_refused(name: str, value: Any) -> None:
    """A wrong value sets no other flag of the same call."""
    with pytest.raises(FlagError, match=f"FLAGS_{name} should be"):
        paddle.set_flags({"FLAGS_benchmark": True, f"FLAGS_{name}": value})
    assert paddle.get_flags("FLAGS_benchmark") == {"FLAGS_benchmark": False}


def test_unknown_names_warn() -> None:
    """The warning has the nearest name, and the value is kept; an unset name cannot be read."""
    with pytest.warns(UserWarning, match="did you mean 'FLAGS_check_nan_inf'"):
        paddle.set_flags({"FLAGS_check_naninf": 1})
    assert paddle.get_flags("FLAGS_check_naninf") == {"FLAGS_check_naninf": 1}
    with pytest.raises(ValueError, match="is not a flag of Paddle"):
        paddle.get_flags("FLAGS_nonsense")
    with pytest.raises(TypeError, match="should be a list, tuple or string"):
        paddle.get_flags(3)  # type: ignore[arg-type]


def test_values_of_the_environment_have_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bool has the words of Paddle's command-line flags; numbers are parsed."""
    given = {"FLAGS_benchmark": "True", "FLAGS_gpu_memory_limit_mb": "64"}
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    assert paddle.get_flags(list(given)) == {
        "FLAGS_benchmark": True,
        "FLAGS_gpu_memory_limit_mb": 64,
    }
    monkeypatch.setenv("FLAGS_benchmark", "perhaps")
    with pytest.raises(FlagError, match="FLAGS_benchmark should be of type bool"):
        paddle.get_flags("FLAGS_benchmark")
