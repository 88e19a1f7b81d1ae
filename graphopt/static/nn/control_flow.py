"""Branches and loops as functions of functions (paddle.static.nn).

The given functions run once, while the program is built, and append operators to a sub-block. They
return a Variable, a number, or lists, tuples and dicts of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphopt.errors import OperandError, ProgramError
from graphopt.frontend import arguments, lazy, nest
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sub_blocks import is_array, parent_of_current
from graphopt.ir.dialect.shapes import UNKNOWN
from graphopt.ir.program import Variable, default_main_program, unique_name
from graphopt.ir.program.location import caller_level
from graphopt.static.debug import Assert as Assert
from graphopt.static.debug import Print as Print
from graphopt.tensor.blocks import ConditionalBlock, While, check_flag
from graphopt.tensor.creation import assign, full, full_like
from graphopt.tensor.logic import equal, less_than, logical_not
from graphopt.tensor.manipulation import cast, concat, reshape
from graphopt.tensor.math import min as smallest
from graphopt.tensor.search import where

Branch = Callable[[], Any]
# The types of Python numbers that a branch may return, with Paddle's dtypes for them.
_NUMBERS = {bool: "bool", int: "int64", float: "float64"}
# The most branches of `case` that are nested; Paddle nests any number of them.
_NESTED = 16


def cond(
    pred: Variable,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    name: str | None = None,
    return_names: Any = None,
) -> Any:
    """Compute `true_fn()` if `pred` holds, else `false_fn()` (paddle.static.nn.cond).

    Only one of them is computed. Both return the same structure of Variables and numbers; None, for
    a missing function too, is a branch without results. A branch may assign to variables from
    outside. If a pair of results differs in dtype or rank, a run computes `pred` first and then the
    program with the branch taken, whose types its fetches have; an export, and devices that take
    different branches, need one dtype and rank, and so does a loop at the end of its body. The
    result declares the type of `true_fn`'s, in a program of fluid the type of `false_fn`'s.

    Raises TypeError when `pred` is not a bool Variable of one element or a function is not
    callable; ProgramError (ValueError) when the branches return different structures.
    """
    check_flag(pred, "pred", "cond")
    LayerHelper("cond", name)
    inner: list[Any] = []
    outputs: list[Any] = []
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if function is not None and not callable(function):
            raise TypeError(
                f"The {what} in cond must be callable, but received {type(function).__name__}"
            )
        result: Any = None
        if function is not None:
            condition = pred if what == "true_fn" else logical_not(pred)
            with ConditionalBlock([condition], is_scalar_condition=True).block():
                result = function()
                inner.append(result)
                result = None if result is None else nest.map_leaves(hand_out, result)
        else:
            inner.append(None)
        outputs.append(result)
    if all(result is None for result in inner):
        return None
    _check_same_structure(*inner)
    for one, other in zip(*map(nest.leaves, inner), strict=True):
        _check_same_type(one, other)
    mask = cast(pred, "int32")
    pairs = zip(*map(nest.leaves, outputs), strict=True)
    return nest.rebuild(outputs[1], [_merge(a, b, mask) for a, b in pairs])


def hand_out(value: Any) -> Any:
    """Copy a block's result to the parent block; numbers and visible arrays stay unchanged."""
    if not isinstance(value, Variable):
        return value
    parent = parent_of_current(default_main_program())
    if is_array(value) and parent.find_var(value.name) is not None:
        return value
    outer = parent.create_var(unique_name.generate("_generated_var"), kind=value.kind)
    if value.has_type:
        outer.shape, outer.dtype = value.shape, value.dtype
    return assign(value, outer)


def _check_same_structure(when_true: Any, when_false: Any) -> None:
    for one, other, names in (
        (when_true, when_false, ("true_fn", "false_fn")),
        (when_false, when_true, ("false_fn", "true_fn")),
    ):
        if one is None:
            raise ProgramError(
                "Incompatible return values of true_fn and false_fn in cond: "
                f"{names[0]} returns None while {names[1]} returns {_show(other)}"
            )
    found = nest.difference(when_true, when_false)
    if found is not None:
        raise ProgramError(
            f"Incompatible return values of true_fn and false_fn in cond: they return {found}"
        )


def _check_same_type(when_true: Any, when_false: Any) -> None:
    """Refuse two results that cannot be merged; the error has their names in the branches."""
    both = when_true, when_false
    if not all(isinstance(value, (Variable, *_NUMBERS)) for value in both):
        raise TypeError(
            "Unsupported return type of true_fn and false_fn in cond: true_fn returns "
            f"{_show(when_true)} where false_fn returns {_show(when_false)}"
        )
    if any(map(is_array, both)):
        if when_true is not when_false:
            raise ProgramError(
                f"cond returns {_show(when_true)} from true_fn and {_show(when_false)} from "
                "false_fn; return tensors, and write them to the array outside of cond"
            )
        return
    types = [_type_of(value) for value in both]
    if types[0][1] != types[1][1] and not any(isinstance(value, Variable) for value in both):
        raise OperandError(
            "Unsupported return type of true_fn and false_fn in cond: true_fn returns "
            f"{_show(when_true)} where false_fn returns {_show(when_false)}; return numbers of "
            "one type"
        )
    if types[0][0] == () and isinstance(when_true, Variable) != isinstance(when_false, Variable):
        warnings.warn(
            "Return results from different branches in cond are not same type: "
            f"{_show(when_true)} in true_fn and {_show(when_false)} in false_fn",
            stacklevel=caller_level(),
        )


def _merge(when_true: Any, when_false: Any, mask: Variable) -> Any:
    """Merge the results of both branches at one place."""
    if is_array(when_true):
        return when_true
    numbers = not isinstance(when_true, Variable) and not isinstance(when_false, Variable)
    if numbers and when_true == when_false:
        return when_true
    yes, no = _as_variable(when_true), _as_variable(when_false)
    program = default_main_program()
    # For different types, Paddle 1 declares false_fn's type, and Paddle 2 true_fn's.
    shown = no if program.is_fluid else yes
    shape = shown.shape
    if len(yes.shape) == len(no.shape):
        shape = [a if a == b else UNKNOWN for a, b in zip(yes.shape, no.shape, strict=True)]
    elif not program.is_fluid:
        warnings.warn(
            "the results of true_fn and false_fn in cond should have the same rank: "
            f"{_show(yes)} and {_show(no)}",
            stacklevel=caller_level(),
        )
    block = program.current_block()
    merged = block.create_var(unique_name.generate("_generated_var"), shape, shown.dtype)
    LayerHelper("select_input").append_op(
        "select_input", {"X": [no, yes], "Mask": mask}, {"Out": merged}
    )
    return merged


def _type_of(value: Any) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of a Variable, or of the 0-D tensor that a number becomes."""
    if isinstance(value, Variable):
        return value.shape, f"{value.dtype}"
    return (), _NUMBERS[type(value)]


def _as_variable(value: Any) -> Variable:
    """Convert a number to a 0-D tensor."""
    return value if isinstance(value, Variable) else full([], value, _NUMBERS[type(value)])


def _show(value: Any) -> str:
    if is_array(value):
        return f"'{value.name}' (tensor array)"
    if isinstance(value, Variable):
        return f"'{value.name}' ({list(value.shape)} {value.dtype})"
    return f"{value!r}"


def case(
    pred_fn_pairs: Sequence[tuple[Variable, Branch]],
    default: Branch | None = None,
    name: str | None = None,
) -> Any:
    """Compute the first function whose condition holds, else `default()`.

    Without a default the last function replaces it. All return the same structure, as for
    `cond` (paddle.static.nn.case). Raises TypeError for other items than pairs of a bool Variable
    and a function.
    """
    LayerHelper("case", name)
    _check_list(pred_fn_pairs, "pred_fn_pairs", "case")
    for pair in pred_fn_pairs:
        _check_pair(pair, "pred_fn_pairs", "case")
        arguments.variable(pair[0], "pred_fn_pairs", "case")
        if not callable(pair[1]):
            raise TypeError(
                f"The fn for {pair[0].name} of pred_fn_pairs in Op(case) must be callable."
            )
    pairs = list(pred_fn_pairs)
    final = _check_default(default, pairs)
    if len(pairs) > _NESTED:
        holds = concat([reshape(pred, [1]) for pred, _ in pairs])
        return _find_by_halving(_first_of(holds), [*(function for _, function in pairs), final])
    for pred, function in reversed(pairs):
        final = partial(cond, pred, function, final)
    return final()


def switch_case(
    branch_index: Variable,
    branch_fns: Mapping[int, Branch] | Sequence[Any],
    default: Branch | None = None,
    name: str | None = None,
) -> Any:
    """Compute the function with index `branch_index`, else `default()`.

    `branch_fns` is a dict, a list of pairs, or a list of functions that count from 0. Without a
    default the function with the largest index replaces it (paddle.static.nn.switch_case).
    Raises TypeError for another `branch_index` than an integer Variable, or another `branch_fns`;
    ValueError for a repeated index.
    """
    LayerHelper("switch_case", name)
    arguments.variable(branch_index, "branch_index", "switch_case")
    if branch_index.dtype not in ("uint8", "int32", "int64"):
        raise TypeError(
            "switch_case(): 'branch_index' must be a Variable of uint8, int32 or int64, but "
            f"'{branch_index.name}' is {branch_index.dtype}"
        )
    index = branch_index if branch_index.dtype == "int64" else cast(branch_index, "int64")
    pairs = _number_branches(branch_fns)
    ordered = sorted(pairs, key=lambda pair: pair[0]) if default is None else pairs
    final = _check_default(default, ordered)
    if len(ordered) > _NESTED:
        ordered.reverse()  # functions are called in the order of nested branches
        holds = equal(index, assign(np.array([number for number, _ in ordered], "int64")))
        return _find_by_halving(_first_of(holds), [*(function for _, function in ordered), final])
    for number, function in ordered:
        holds = equal(index, full([1], number, "int64"))
        final = partial(cond, holds, function, final)
    return final()


def _first_of(holds: Variable) -> Variable:
    """Find the index of the first true flag; the number of flags if none is true."""
    count = holds.shape[0]
    places = assign(np.arange(count, dtype="int64"))
    return smallest(where(holds, places, full_like(places, count)), 0, keepdim=True)


def _find_by_halving(place: Variable, functions: Sequence[Branch], start: int = 0) -> Any:
    """Compute the function at index `place` by binary search with `cond`.

    A thousand functions are branches ten deep, which Paddle reads as any others. `start` is the
    index of the first function.
    """
    if len(functions) == 1:
        return functions[0]()
    half = len(functions) // 2
    middle = start + half
    return cond(
        less_than(place, full([1], middle, "int64")),
        lambda: _find_by_halving(place, functions[:half], start),
        lambda: _find_by_halving(place, functions[half:], middle),
    )


def _number_branches(branch_fns: Any) -> list[tuple[int, Branch]]:
    if isinstance(branch_fns, Mapping):
        pairs: list[Any] = list(branch_fns.items())
    else:
        _check_list(branch_fns, "branch_fns", "switch_case")
        plain = all(callable(item) for item in branch_fns)
        pairs = list(enumerate(branch_fns)) if plain else list(branch_fns)
    seen: set[int] = set()
    for pair in pairs:
        _check_pair(pair, "branch_fns", "switch_case")
        number, function = pair
        if not isinstance(number, int):
            raise TypeError(
                "The key's type of 'branch_fns' in switch_case must be int, but received: "
                f"{type(number).__name__}."
            )
        if number in seen:
            raise ValueError(
                f"The key in 'branch_fns' must be unique, but '{number}' appears more than once."
            )
        seen.add(number)
        if not callable(function):
            raise TypeError(
                f"The type of function for key {number} of 'branch_fns' in switch_case must be "
                f"callable, but received: {type(function).__name__}."
            )
    return pairs


def _check_list(value: object, name: str, function: str) -> None:
    if not isinstance(value, (list, tuple)) or not value:
        raise TypeError(
            f"{function}(): '{name}' must be a list or tuple that is not empty, found {value!r}"
        )


def _check_pair(pair: object, name: str, function: str) -> None:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"The elements' type of '{name}' in {function} must be a tuple of two, but received: "
            f"{pair!r}."
        )


def _check_default(default: Branch | None, pairs: list[Any]) -> Branch:
    """Return the default, or remove the last function from the list and return it."""
    if default is None:
        return pairs.pop()[1]
    if not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    return default


def while_loop(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> Any:
    """Repeat `loop_vars = body(*loop_vars)` while `cond(*loop_vars)` (paddle.static.nn.while_loop).

    Returns new variables, in the structure of `loop_vars`; the given ones keep their values, as in
    Paddle 3 (2.x writes them in place, which `fluid.layers.while_loop` still does). Tensor arrays
    are written in place. Loop variables keep their shape and dtype, except in a loop whose number
    of iterations is a constant of the program, or over tensor arrays. Every loop can be
    differentiated.

    Raises TypeError when `cond` or `body` is not callable or `cond` returns no bool of one element;
    ValueError when `loop_vars` is empty or `body` returns another structure or dtype.
    """
    _check_loop(cond, body, loop_vars)
    return _loop(cond, body, nest.map_leaves(copy, loop_vars), is_test, name)


def while_in_place(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> Any:
    """Loop as `paddle.static.nn.while_loop`, but write and return the given loop variables.

    As in 1.8 (fluid.layers.while_loop), a variable given twice is one variable.
    """
    _check_loop(cond, body, loop_vars)
    return _loop(cond, body, loop_vars, is_test, name)


def _check_loop(cond: Any, body: Any, loop_vars: Any) -> None:
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"{what} in while_loop should be callable")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(
            f"loop_vars in while_loop should be a list or tuple, found {type(loop_vars).__name__}"
        )
    if len(loop_vars) == 0:
        raise ValueError("loop_vars in while_loop should not be empty")


def copy(leaf: Any) -> Any:
    """Copy a loop variable, so that the given one keeps its value; arrays are written in place."""
    if not isinstance(leaf, Variable) or is_array(leaf):
        return leaf
    made = assign(leaf)
    made.stop_gradient = leaf.stop_gradient
    return made


def _loop(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool,
    name: str | None,
) -> Any:
    """Append the loop, which writes its variables; return them."""
    flag = check_flag(cond(*loop_vars), "the result of cond", "while_loop")
    with While(flag, is_test, name).block():
        # body gets copies of lists and dicts, which it may change
        after = body(*(nest.map_leaves(lambda leaf: leaf, item) for item in loop_vars))
        after = list(after) if isinstance(after, (list, tuple)) else [after]
        found = nest.difference(after, list(loop_vars))
        if found is not None:
            raise ProgramError(
                "body in while_loop should return the same arity (length and structure) as "
                f"loop_vars, but they are {found}"
            )
        again = check_flag(cond(*after), "the result of cond", "while_loop")
        carried = _carry_values(nest.leaves(after), nest.leaves(list(loop_vars)))
        assign_together([*carried, (again, flag)])
    return loop_vars


def _carry_values(after: Sequence[Any], before: Sequence[Any]) -> Iterator[tuple[Any, Variable]]:
    """Yield the values for the next iteration, each with the loop variable to assign it to."""
    for new, old in zip(after, before, strict=True):
        if not isinstance(old, Variable):
            if isinstance(new, Variable):
                raise ProgramError(
                    f"body in while_loop returns {_show(new)} for the loop variable {old!r}, "
                    "which is not a Variable; make it one with paddle.full before the loop"
                )
            continue
        if is_array(new) or is_array(old):
            if is_array(new) and is_array(old) and new.name != old.name:
                yield new, old
            continue
        if isinstance(new, Variable) and new.dtype != old.dtype:
            raise ProgramError(
                f"body in while_loop returns {_show(new)} for the loop variable {_show(old)}; "
                "cast it to the same dtype"
            )
        if isinstance(new, (Variable, *_NUMBERS)):
            yield new, old


def assign_together(pairs: Sequence[tuple[Any, Variable]]) -> None:
    """Assign values to variables at once, as `a, b = b, a` does.

    Operators run one after another, so a value that an earlier pair overwrites is copied first.
    """
    written: set[str] = set()
    values: list[Any] = []
    for value, target in pairs:
        name = value.name if isinstance(value, Variable) else None
        values.append(_assign_value(value) if name in written and name != target.name else value)
        written.add(target.name)
    for value, (_, target) in zip(values, pairs, strict=True):
        _assign_value(value, target)


def _assign_value(value: Any, target: Variable | None = None) -> Variable:
    """Assign a tensor, an array or a number to `target`, or to a new variable."""
    if not is_array(value):
        return assign(value, target)
    if target is None:
        block = default_main_program().current_block()
        name = unique_name.generate("_generated_var")
        target = block.create_var(name, value.shape, value.dtype, kind=value.kind)
    LayerHelper("assign").append_op("assign", {"X": value}, {"Out": target})
    return target


lazy.join_package(globals())
