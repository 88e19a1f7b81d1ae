"""The whole state of a program in files, and in dicts of arrays.

Paddle pages: paddle.static.save, load, load_program_state, set_program_state.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from graphopt.errors import FormatError, ScopeError
from graphopt.frontend.framework_io import (
    check_protocol,
    join_big,
    load_states,
    load_variable_files,
    split_big,
)
from graphopt.ir.dtypes import bfloat16
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.files import read_one, settle_at
from graphopt.ir.formats.parameters import read_combined, read_folder, stored_variables
from graphopt.ir.formats.pickle.writer import write_pickle
from graphopt.ir.formats.protobuf.program_desc import write_program
from graphopt.ir.formats.seal import sealed_message, sealed_pickle
from graphopt.ir.program import Parameter, Program, Variable
from graphopt.ir.program.location import caller_level
from graphopt.runtime.executor import Executor
from graphopt.runtime.state.scope import global_scope
from graphopt.runtime.state.slots import Slot
from graphopt.static.io import check_type, put_value, scope_slot

if TYPE_CHECKING:
    from concurrent.futures import Future

_SUFFIXES = (".pdparams", ".pdopt", ".pdmodel")


def _parameters(program: Program) -> list[Variable]:
    return [v for v in stored_variables(program) if isinstance(v, Parameter)]


def _other_state(program: Program) -> list[Variable]:
    """Collect the state of optimizers and normalizations: neither parameters nor feeds."""
    found = stored_variables(program)
    return [v for v in found if not (isinstance(v, Parameter) or v.need_check_feed)]


@overload
def save(
    program: Program,
    model_path: str,
    protocol: int = 4,
    *,
    format: Literal["paddle"] = "paddle",
    **configs: Any,
) -> None: ...
@overload
def save(
    program: Program,
    model_path: str,
    protocol: int = 4,
    *,
    format: Literal["orbax"],
    **configs: Any,
) -> Future[None]: ...
def save(
    program: Program,
    model_path: str,
    protocol: int = 4,
    *,
    format: str = "paddle",
    **configs: Any,
) -> Future[None] | None:
    """Write a program and the values of its variables in the global scope.

    `model_path`.pdparams gets the parameters, .pdopt the other persistable variables, and .pdmodel
    the whole program, unpruned. graphopt reads all three of one save, even if the process is
    killed during it; `load` refuses files of different saves. The derivatives of a training program
    are stored in graphopt's form: Paddle loads the state of such a program, but cannot run it
    from the .pdmodel.

    With `format="orbax"` only the values become an Orbax checkpoint in the folder `model_path`,
    while the script continues: `result()` of the returned future waits for it. Every trainer of a
    job calls it, and writes the parts of values that are on its devices.

    Raises AssertionError for a path without a file name, ValueError for a protocol other than 2, 3
    and 4 and for another format, ScopeError for a variable without a value; with Orbax
    FileExistsError for a folder that exists, UnsupportedError without the package.
    """
    _require_program(program, "save")
    assert os.path.basename(model_path) != "", (
        "The input model_path MUST be format of dirname/filename, but received model_path is "
        "empty string."
    )
    protocol = check_protocol(protocol, configs)
    if format not in ("paddle", "orbax"):
        raise ValueError(f"save(): 'format' should be 'paddle' or 'orbax', found '{format}'")
    parameters = {v.name: _current(program, v) for v in _parameters(program)}
    others = {v.name: _current(program, v) for v in _other_state(program)}
    if format == "orbax":
        from graphopt.static.orbax_state import start_save

        return start_save(Path(model_path), parameters | others)
    Path(model_path).parent.mkdir(parents=True, exist_ok=True)
    write_files(
        {
            Path(f"{model_path}.pdparams"): sealed_pickle(
                write_pickle(split_big(_with_flat_weights(program, parameters), protocol), protocol)
            ),
            Path(f"{model_path}.pdopt"): sealed_pickle(write_pickle(_copies(others), protocol)),
            Path(f"{model_path}.pdmodel"): sealed_message(write_program(program)),
        }
    )
    return None


def _require_program(program: Any, function: str) -> None:
    if not isinstance(program, Program):
        raise TypeError(f"{function}(): 'program' should be a Program, found {program!r:.60}")


def _current(program: Program, variable: Variable) -> Slot | np.ndarray[Any, Any]:
    """Return the slot of a variable; for a scheduled learning rate, its next value.

    Only runs store the learning rate in the scope.
    """
    schedule = program.lr_schedulers.get(variable.name)
    if schedule is None:
        return scope_slot(variable)
    return np.full(variable.shape, schedule(), variable.dtype.numpy)


def _copies(values: Mapping[str, Slot | np.ndarray[Any, Any]]) -> dict[str, Any]:
    return {n: value.read() if isinstance(value, Slot) else value for n, value in values.items()}


def _with_flat_weights(
    program: Program, parameters: Mapping[str, Slot | np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """Copy the parameters, and add recurrent layers' concatenated ones, which Paddle requires."""
    values = _copies(parameters)
    flat = {
        name: np.concatenate([values[each].ravel() for each in parts])
        for name, parts in program.flat_weights.items()
        if all(each in values for each in parts)
    }
    return values | flat


def _is_orbax(folder: Path) -> bool:
    """True for a complete Orbax checkpoint, recognized by a file in it."""
    return (folder / "_METADATA").is_file()


def _prefix(model_path: str) -> str:
    for suffix in _SUFFIXES:
        if model_path.endswith(suffix):
            return model_path.removesuffix(suffix)
    return model_path


def load(
    program: Program,
    model_path: str,
    executor: Any = None,
    var_list: Sequence[Variable] | None = None,
) -> None:
    """Load a file of `save` into the global scope, as the values of the program's variables.

    `model_path` may carry one of the three suffixes. A folder with one file per variable, or a
    single file with the variables of `var_list`, as Paddle 1.x wrote them, are read too, and so is
    an Orbax checkpoint, on any number of devices.

    Programs with and without float32 master weights load each other's files: a value that one keeps
    for the master weight of a half-precision parameter, the other keeps for the parameter.

    Raises FormatError (ValueError) when a file lacks one of the variables, is malformed or belongs
    to another save than the other file, ValueError when a value has another shape or dtype than the
    program declares, UnsafeError for a pickle with other contents than arrays, FileNotFoundError
    for a missing file.
    """
    _require_program(program, "load")
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"load: executor should be an Executor, but received {type(executor)}")
    prefix = _prefix(model_path)
    settle_at(Path(model_path))
    params, optimizer = Path(f"{prefix}.pdparams"), Path(f"{prefix}.pdopt")
    others = _other_state(program)
    if _is_orbax(Path(model_path)):
        from graphopt.static.orbax_state import read

        params = optimizer = Path(model_path)
        everything = read(params)
    elif params.exists():
        states = load_states([params, optimizer] if others else [params])
        everything = {name: value for state in states.values() for name, value in state.items()}
    else:
        _load_streams(program, Path(model_path), var_list)
        return
    with_master = {_plain(name): name for name in everything if _MASTER.search(name)}
    values = _values_for(_parameters(program), everything, with_master, params)
    if others:
        values.update(_values_for(others, everything, with_master, optimizer))
    for name, array in values.items():
        put_value(name, array)


_MASTER = re.compile(r"_fp32_master_\d+")


def _plain(name: str) -> str:
    """Return the name that a parameter or its state has without a master weight."""
    return _MASTER.sub("", name)


def _values_for(
    variables: Sequence[Variable],
    state: Mapping[str, Any],
    with_master: Mapping[str, str],
    path: Path,
) -> dict[str, np.ndarray[Any, Any]]:
    values: dict[str, np.ndarray[Any, Any]] = {}
    for variable in variables:
        plain = _plain(variable.name)
        names = [variable.name, plain, with_master.get(plain, "")]
        if variable.has_type and variable.dtype == "float32" and _is_half(state.get(names[0])):
            names.reverse()
        found = next((name for name in names if name in state), None)
        if found is None:
            raise FormatError(f"Can not find [{variable.name}] in model file [{path}]")
        value = _in_precision(variable, state[found])
        values[variable.name] = _fitting(variable, value, f"{path} holds")
    return values


def _is_half(value: Any) -> bool:
    """True for an array of float16, or of bfloat16, which files hold as uint16."""
    return isinstance(value, np.ndarray) and value.dtype in (np.float16, np.uint16)


def _in_precision(variable: Variable, value: Any) -> Any:
    """Round a float32 value for a half parameter; widen a half value for float32 state.

    Paddle's O2 on a CPU, which has no half precision, keeps parameters in float32.
    """
    if not (variable.has_type and isinstance(value, np.ndarray)):
        return value
    is_half = variable.dtype in ("float16", "bfloat16")
    rounds = variable.is_parameter and is_half and value.dtype == np.float32
    if rounds or (variable.dtype == "float32" and value.dtype == np.float16):
        return value.astype(variable.dtype.numpy)
    if variable.dtype == "float32" and value.dtype == np.uint16:
        return value.view(bfloat16.numpy).astype(np.float32)
    return value


def _fitting(variable: Variable, value: Any, what: str) -> np.ndarray[Any, Any]:
    """Convert a value to its variable's declaration; raise FormatError if it is no array.

    Files hold bfloat16 as uint16, and releases differ on whether a single number, such as a
    learning rate, has the shape [] or [1].
    """
    if not isinstance(value, np.ndarray | np.generic | float | int):
        raise FormatError(f"{what} a {type(value).__name__} for '{variable.name}', not an array")
    array = np.asarray(value)
    if variable.has_type:
        if variable.dtype == "bfloat16" and array.dtype == np.uint16:
            array = array.view(variable.dtype.numpy)
        if array.size == 1 and math.prod(variable.shape) == 1:
            array = array.reshape(variable.shape)
    check_type(variable, array.shape, array.dtype, what)
    return array


def _load_streams(program: Program, path: Path, var_list: Sequence[Variable] | None) -> None:
    variables = stored_variables(program)
    if var_list is not None:
        known = {v.name for v in variables}
        for variable in var_list:
            if variable.name not in known:
                raise LookupError(f"loaded var [{variable.name}] is not in program variable list")
        names = {v.name for v in var_list}
        variables = [v for v in variables if v.name in names]
    if path.is_dir():
        found = [v for v in variables if (path / v.name).exists()]
        tensors = read_folder(path, found)
    elif path.is_file():
        if var_list is None:
            raise ValueError(
                "var_list is required when loading model file saved with [ save_params, "
                "save_persistables, save_vars ]"
            )
        tensors = read_combined(read_one(path), variables, str(path))
    else:
        raise FileNotFoundError(
            f"no saved state: looked for {_prefix(str(path))}.pdparams, {path}; give the path "
            "passed to static.save"
        )
    for name, tensor in tensors.items():
        put_value(name, tensor.array)


def load_program_state(
    model_path: str, var_list: Sequence[Variable] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Load the file of `save` as arrays by variable name, without a program.

    Raises as `load`; ValueError when `model_path` is a file of tensors, which has no names in it,
    and `var_list` is not given, TypeError for a `var_list` of other items than Variables.
    """
    prefix = _prefix(model_path)
    params, optimizer = Path(f"{prefix}.pdparams"), Path(f"{prefix}.pdopt")
    path = Path(model_path)
    settle_at(path)
    if _is_orbax(path):
        from graphopt.static.orbax_state import read

        return read(path)
    if params.exists():
        states = load_states([params, optimizer] if optimizer.exists() else [params])
        state = {name: value for each in states.values() for name, value in each.items()}
        return {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in state.items()}
    if path.is_dir() and var_list is None:
        return load_variable_files(path)
    if var_list is None:
        if path.is_file():
            raise ValueError("var_list can not be None when model_path is a file type")
        raise FileNotFoundError(f"Parameter file [{params}] not exits")
    wrong = next((each for each in var_list if not isinstance(each, Variable)), None)
    if wrong is not None:
        raise TypeError(
            f"load_program_state(): 'var_list' should hold Variables, found {type(wrong).__name__}"
        )
    variables = sorted(var_list, key=lambda v: v.name)
    if path.is_dir():
        tensors = read_folder(path, variables)
    else:
        tensors = read_combined(read_one(path), variables, str(path))
    return {name: np.array(tensor.array) for name, tensor in tensors.items()}


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Set the program's variables in the global scope to the values of a dict of arrays.

    Warns of entries without a variable in the program. Raises ScopeError for a variable that has
    no value yet, ValueError for an array of another shape or dtype; then no value is set.
    """
    state = join_big(dict(state_dict), "state_dict")
    values: dict[str, np.ndarray[Any, Any]] = {}
    for variable in stored_variables(program):
        if global_scope().find_var(variable.name) is None:
            raise ScopeError(
                f"Variable [ {variable.name} ] Not found, Please make sure run startup program"
            )
        if variable.name in state:
            value = state[variable.name]
            values[variable.name] = _fitting(variable, value, "the loaded parameter is")
    for name, array in values.items():
        put_value(name, array)
    unused = [name for name in state if name not in values]
    if unused:
        warnings.warn(
            "This list is not set, Because of Parameter not found in program. There are: "
            f"{' '.join(map(str, unused))}",
            stacklevel=caller_level(),
        )
