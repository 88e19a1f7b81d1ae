"""Saving and loading variables: as files of a folder, or all in one file.

Paddle 1.8 has these functions in `paddle.fluid.io`; `paddle.static.io` and `paddle.distributed`
have some of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.errors import AssertedError, ScopeError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.files import read_one
from graphopt.ir.formats.parameters import (
    read_combined,
    read_folder,
    sealed_combined,
    stored_variables,
    write_folder,
)
from graphopt.ir.formats.seal import Piece, sealed_message
from graphopt.ir.formats.tensor_stream import SavedTensor, write_tensor
from graphopt.ir.program import Block, Parameter, Program, Variable
from graphopt.ir.program.location import caller_level
from graphopt.runtime.state.scope import global_scope
from graphopt.static import io as modern
from graphopt.static.io import given_program

Predicate = Callable[[Variable], bool]


def is_parameter(var: Variable) -> bool:
    """True if a variable is a parameter (fluid.io.is_parameter)."""
    return isinstance(var, Parameter)


def get_program_parameter(program: Program) -> list[Variable]:
    """List the parameters of a program (fluid.io.get_program_parameter)."""
    return [v for v in program.list_vars() if is_parameter(v)]


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """List a program's persistable variables (fluid.io.get_program_persistable_vars)."""
    return [v for v in program.list_vars() if is_persistable(v)]


def is_persistable(var: Variable) -> bool:
    """True if a variable is kept between runs (fluid.io.is_persistable)."""
    return var.persistable


def _choose_variables(
    main_program: Program | None, vars: Sequence[Any] | None, predicate: Predicate | None
) -> list[Variable]:
    """Select these variables, or the program's that the predicate accepts, sorted by name."""
    program = given_program(main_program)
    if vars is None:
        return [v for v in stored_variables(program) if predicate is None or predicate(v)]
    block = program.global_block()
    found = {v.name: v for v in (block.var(v) if isinstance(v, str) else v for v in vars)}
    return [found[name] for name in sorted(found)]


def _clone_var_in_block_(block: Block, var: Variable) -> Variable:
    """Declare a persistable variable of this name, shape and dtype in another block."""
    kept = {"lod_level": var.lod_level, "persistable": True}
    return block.create_var(var.name, var.shape, var.dtype, **kept)


def save_vars(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    vars: Sequence[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> bytes | None:
    """Write the values of variables to files named like them, or all to one file.

    `vars` has Variables or names; by default the program's persistable variables that `predicate`
    accepts are written. Without a folder and a file name the bytes of the one file are returned.
    Raises ScopeError for a variable without a value, ValueError for a file name without a folder.
    Paddle page: fluid.io.save_vars.
    """
    tensors = _values(_choose_variables(main_program, vars, predicate))
    if dirname is not None:
        _write(Path(dirname), tensors, filename)
        return None
    if filename is not None:
        raise ValueError(
            f"save_vars(): 'filename' is '{filename}', but 'dirname' is None; set 'dirname', or "
            "leave out both to get the bytes"
        )
    return b"".join(_streams(tensors))


def _values(variables: Sequence[Variable]) -> dict[str, SavedTensor]:
    tensors: dict[str, SavedTensor] = {}
    for variable in variables:
        slot = global_scope().find_var(variable.name)
        if slot is None or not slot.is_initialized():
            raise ScopeError(
                f"variable '{variable.name}' has no value to save; run the startup program first"
            )
        tensors[variable.name] = SavedTensor(slot.read())
    return tensors


def _write(
    folder: Path,
    tensors: Mapping[str, SavedTensor],
    filename: str | None,
    others: Mapping[Path, Iterable[Piece]] | None = None,
) -> None:
    """Write tensors to files of their own, or to one named file, with `others` as one save."""
    folder.mkdir(parents=True, exist_ok=True)
    if filename is None:
        write_folder(folder, tensors, others)
        return
    files = {folder / filename: sealed_combined(_streams(tensors)), **(others or {})}
    write_files(files, folder)


def _streams(tensors: Mapping[str, SavedTensor]) -> Iterator[bytes]:
    """Serialize tensors in the order of their names, as a combined file has them."""
    return (write_tensor(*tensors[name]) for name in sorted(tensors))


def save_params(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    filename: str | None = None,
) -> bytes | None:
    """Write the parameters, as `save_vars` does (fluid.io.save_params)."""
    return save_vars(executor, dirname, main_program, None, is_parameter, filename)


def save_persistables(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    filename: str | None = None,
) -> bytes | None:
    """Write all persistable variables, as `save_vars` does (fluid.io.save_persistables)."""
    return save_vars(executor, dirname, main_program, None, None, filename)


def load_vars(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    vars: Sequence[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | bytes | None = None,
) -> None:
    """Load the file of `save_vars` into the global scope (fluid.io.load_vars).

    Without a folder `filename` is the bytes that `save_vars` returned.

    Raises FormatError when a file is missing or does not fit the variable, OSError when the one
    file cannot be read, ValueError without a folder and bytes.
    """
    variables = _choose_variables(main_program, vars, predicate)
    for name, tensor in _read(variables, dirname, filename).items():
        global_scope().var(name).write(tensor.array)


def _read(
    variables: Sequence[Variable], dirname: str | None, filename: str | bytes | None
) -> dict[str, SavedTensor]:
    if isinstance(filename, bytes):
        return read_combined(filename, variables)
    if dirname is None:
        raise ValueError(
            "load_vars(): 'dirname' is None; set a folder, or pass the bytes of the parameters as "
            "'filename'"
        )
    if filename is None:
        return read_folder(Path(dirname), variables)
    path = Path(dirname) / filename
    return read_combined(read_one(path), variables, str(path))


def load_params(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    filename: str | bytes | None = None,
) -> None:
    """Load the parameters, as `load_vars` does (fluid.io.load_params)."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_persistables(
    executor: Any,
    dirname: str | None,
    main_program: Program | None = None,
    filename: str | bytes | None = None,
) -> None:
    """Load all persistable variables, as `load_vars` does (fluid.io.load_persistables)."""
    load_vars(executor, dirname, main_program, None, None, filename)


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Any,
    executor: Any,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Write the part of a program that computes the targets from the feeds, and its parameters.

    The program goes to `model_filename` (`__model__`) in the folder, each parameter to a file of
    its own unless `params_filename` is given. Returns the names of the targets. Paddle page:
    fluid.io.save_inference_model. Warns of the counts of an `auc` layer, which are saved unchanged,
    and of a program without parameters.
    """
    program = given_program(main_program)
    if any(op.type == "auc" for op in program.global_block().ops):
        warnings.warn(
            "please ensure that you have set the auc states to zeros before saving inference model",
            stacklevel=caller_level(),
        )
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    names = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    feeds = [program.global_block().var(name) for name in names]
    with warnings.catch_warnings():  # the newer function warns about `auc` again
        warnings.filterwarnings("ignore", "Be sure that you have set auc states")
        data = modern.serialize_program(feeds, targets, program=program)
        pruned = None if program_only else modern.normalize_program(program, feeds, targets)
    folder = Path(dirname)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (model_filename or "__model__")
    if pruned is None:
        write_files({path: [data]}, folder)
    else:
        tensors = _values(stored_variables(pruned))
        if not tensors:
            warnings.warn(
                "no variable in your model, please ensure there are any variables in your model to "
                "save",
                stacklevel=caller_level(),
            )
        _write(folder, tensors, params_filename, {path: sealed_message(data)})
    return [target.name for target in targets]


def load_inference_model(
    dirname: str | None,
    executor: Any,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    """Read the files of `save_inference_model`: the program, feed names and target variables.

    The parameters are put into the global scope. With None for the folder the two file names are
    the bytes of the program and of the parameters. Paddle page: fluid.io.load_inference_model.
    """
    names = {"model_filename": model_filename or "__model__", "params_filename": params_filename}
    folder = None if dirname is None else dirname.rstrip("/")
    return modern.load_inference_model(folder, executor, **names)


def get_parameter_value(para: Any, executor: Any) -> np.ndarray[Any, Any]:
    """Read the value of a parameter in the global scope (fluid.io.get_parameter_value).

    Raises AssertionError for other objects than parameters, ScopeError for one without a value.
    """
    if not isinstance(para, Parameter):
        raise AssertedError(
            f"get_parameter_value(): 'para' should be a Parameter, found {type(para).__name__}"
        )
    return np.array(_values([para])[para.name].array)


def get_parameter_value_by_name(
    name: str, executor: Any, program: Program | None = None
) -> np.ndarray[Any, Any]:
    """Read a parameter's value by name, by default from the default main program."""
    return get_parameter_value(given_program(program).global_block().var(name), executor)
