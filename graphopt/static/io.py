"""Inference models: saving, loading, and serialized programs and parameters.

Files have the format of Paddle 2.6. Paddle pages: paddle.static.save_inference_model,
load_inference_model, normalize_program, serialize_program, serialize_persistables,
deserialize_program, deserialize_persistables, save_to_file, load_from_file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.errors import MissingModelError, ScopeError
from graphopt.frontend import lazy
from graphopt.frontend.nest import items_of
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.files import read_one, settle_at
from graphopt.ir.formats.graph_check import column_names
from graphopt.ir.formats.model import load_model
from graphopt.ir.formats.parameters import read_combined, sealed_combined, stored_variables
from graphopt.ir.formats.pir.defaults import complete
from graphopt.ir.formats.protobuf.program_desc import read_program, write_program
from graphopt.ir.formats.seal import sealed_message
from graphopt.ir.formats.tensor_stream import write_tensor
from graphopt.ir.program import Program, Variable, default_main_program
from graphopt.ir.program.location import caller_level
from graphopt.ir.translate.inference import inference_program, without_training_info
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.state.scope import global_scope
from graphopt.runtime.state.slots import Slot

_NO_VARIABLES = "no variable in your model, please ensure there are any variables in your model"


def normalize_program(program: Program, feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> Program:
    """Extract the part of a program that computes `fetch_vars` from `feed_vars`, ready to save.

    The result is a copy in test mode with feed and fetch operators; outputs that are not boolean go
    through a `scale` by 1, as in Paddle's models. `skip_prune_program` keeps every operator.
    Raises TypeError for arguments of another kind, ValueError for a feed that the fetches do not
    depend on, UnsupportedError for a fetch that needs a derivative.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program type must be `Program`, but received `{type(program)}`")
    feeds, fetches = (items_of(given) for given in (feed_vars, fetch_vars))
    for name, variables in (("feed_vars", feeds), ("fetch_vars", fetches)):
        if not all(isinstance(v, Variable) for v in variables):
            raise TypeError(f"{name} type must be a Variable or a list of Variable.")
    if any(op.type == "auc" for op in program.global_block().ops):
        warnings.warn(
            "Be sure that you have set auc states to 0 before saving inference model.",
            stacklevel=caller_level(),
        )
    twin = program.clone()
    names = [_copy_output(twin, index, v.name) for index, v in enumerate(fetches)]
    return inference_program(
        twin,
        [v.name for v in feeds],
        names,
        prune=not kwargs.get("skip_prune_program", False),
    )


def _copy_output(program: Program, index: int, name: str) -> str:
    """Append a scale by 1 of an output; return its unique name. A bool output is not scaled."""
    block = program.global_block()
    source = block.find_var(name)
    if source is None:
        raise ValueError(f"the fetch variable '{name}' is not in the program to be saved")
    if source.has_type and source.dtype == "bool":
        return name
    number = 0
    while block.has_var(f"save_infer_model/scale_{index}.tmp_{number}"):
        number += 1
    scaled = block.create_var(f"save_infer_model/scale_{index}.tmp_{number}")
    attrs = {"scale": 1.0, "bias": 0.0, "bias_after_scale": True}
    block.append_op("scale", {"X": name}, {"Out": scaled}, attrs)
    return scaled.name


def _check_vars(name: str, variables: Any) -> None:
    if not all(isinstance(v, Variable) for v in items_of(variables)):
        raise ValueError(f"'{name}' should be a Variable or a list of Variable.")


def given_program(program: Any) -> Program:
    """Return the default main program for None; unwrap a CompiledProgram, with a warning.

    Raises TypeError for other values than Programs.
    """
    if program is None:
        return default_main_program()
    if isinstance(program, CompiledProgram):
        warnings.warn(
            "The input is a CompiledProgram, this is not recommended.", stacklevel=caller_level()
        )
        program = program._program
    if not isinstance(program, Program):
        raise TypeError(
            "The type of input program is invalid, expected type is Program, but received "
            f"{type(program)}"
        )
    return program


_get_valid_program = given_program


def serialize_program(feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> bytes:
    """Serialize the `.pdmodel` file that computes `fetch_vars` from `feed_vars`.

    `program` is by default the default main program. Raises as `normalize_program`, but ValueError
    where that raises TypeError.
    """
    _check_vars("feed_vars", feed_vars)
    _check_vars("fetch_vars", fetch_vars)
    program = given_program(kwargs.get("program"))
    return _serialize_program(normalize_program(program, feed_vars, fetch_vars))


def serialize_persistables(
    feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any
) -> bytes | None:
    """Serialize the `.pdiparams` file that belongs to `serialize_program`'s.

    Returns None, and warns, when the program has no parameters. Raises ScopeError for a parameter
    without a value.
    """
    _check_vars("feed_vars", feed_vars)
    _check_vars("fetch_vars", fetch_vars)
    program = given_program(kwargs.get("program"))
    pruned = normalize_program(program, feed_vars, fetch_vars)
    return _serialize_persistables(pruned, executor)


def _serialize_program(program: Program) -> bytes:
    """Serialize a whole program as a `.pdmodel` file."""
    return write_program(complete(program))


def _serialize_persistables(program: Program, executor: Any) -> bytes | None:
    """Serialize a whole program's `.pdiparams` file; warn and return None if it has no values."""
    variables = stored_variables(program)
    if not variables:
        warnings.warn(f"{_NO_VARIABLES} to save", stacklevel=caller_level())
        return None
    return b"".join(_streams(variables))


def scope_value(variable: Variable) -> np.ndarray[Any, Any]:
    """Read the value of a variable in the global scope, and check it against its declaration.

    Raises ScopeError when it has none, ValueError when it has another shape or dtype.
    """
    return scope_slot(variable).read()


def scope_slot(variable: Variable) -> Slot:
    """Find the slot of a variable in the global scope; raise as `scope_value`."""
    slot = global_scope().find_var(variable.name)
    found = None if slot is None else slot.value_type()
    if slot is None or found is None:
        raise ScopeError(
            f"variable '{variable.name}' has no value to save; run the startup_program first"
        )
    check_type(variable, *found, "the scope holds")
    return slot


def check_type(variable: Variable, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    """Raise ValueError for an array of another shape or dtype than its variable declares."""
    if not variable.has_type:
        return
    fits = len(shape) == len(variable.shape) and all(
        want in (-1, have) for want, have in zip(variable.shape, shape, strict=True)
    )
    if not fits or dtype != variable.dtype.numpy:
        raise ValueError(
            f"the Program declares '{variable.name}' as {variable.dtype} "
            f"{list(variable.shape)}, but {what} {dtype} {list(shape)}"
        )


def _streams(variables: Sequence[Variable]) -> Iterable[bytes]:
    """Serialize tensors in the order of their names, as a combined file has them."""
    return (write_tensor(scope_value(variable)) for variable in variables)


def save_to_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes to a file, replaced atomically; raise ValueError for other content."""
    if not isinstance(content, bytes):
        raise ValueError("'content' type should be bytes.")
    write_files({Path(path): [content]})


def load_from_file(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a file."""
    return read_one(Path(path))


def _instead_of_file(path: str) -> str:
    """Compose advice for a path that is a file, not the prefix of two paths."""
    bare = os.path.splitext(path)[0]
    if any(os.path.isfile(f"{bare}{suffix}") for suffix in (".pdmodel", ".json")):
        return f"give the path without its suffix: '{bare}'"
    return f"graphopt.import_model('{path}') also reads ONNX, and names the kind of other files"


def _path_prefix(path_prefix: Any) -> str:
    if not isinstance(path_prefix, str):
        raise ValueError("'path_prefix' should be a string.")
    if not path_prefix or path_prefix.endswith("/"):
        raise ValueError(
            f"'path_prefix' should be the path of the files without their suffixes, such as "
            f"'{path_prefix}model', found the directory '{path_prefix}'"
        )
    return os.path.abspath(os.path.normpath(path_prefix))


def save_inference_model(
    path_prefix: str, feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any
) -> None:
    """Write `path_prefix`.pdmodel and `path_prefix`.pdiparams, with values of the global scope.

    The model is the part of `program` (by default the default main program) that computes
    `fetch_vars` from `feed_vars`; see `normalize_program`. `clip_extra=False` keeps attributes
    that only training uses. After an interruption graphopt still reads both files of one save.

    Raises ValueError for a bad path, for feeds and fetches that are not Variables and for a feed
    that the fetches do not depend on, ScopeError for a parameter without a value.
    """
    prefix = _path_prefix(path_prefix)
    model_path, params_path = Path(f"{prefix}.pdmodel"), Path(f"{prefix}.pdiparams")
    model_path.parent.mkdir(parents=True, exist_ok=True)
    for path in (model_path, params_path):
        if path.is_dir():
            raise ValueError(f"'{path}' is an existing directory.")
    _check_vars("feed_vars", feed_vars)
    _check_vars("fetch_vars", fetch_vars)
    program = normalize_program(
        given_program(kwargs.get("program")),
        feed_vars,
        fetch_vars,
        skip_prune_program=kwargs.get("skip_prune_program", False),
    )
    variables = stored_variables(program)
    saved = without_training_info(program, clip_extra=kwargs.get("clip_extra", True))
    model = write_program(complete(saved))
    if not variables:
        warnings.warn(f"{_NO_VARIABLES} to save", stacklevel=caller_level())
        write_files({model_path: [model]})
        return
    # Write the program last: until then, Paddle's readers find the old pair or no model.
    streams = sealed_combined(_streams(variables))
    write_files({params_path: streams, model_path: sealed_message(model)})


def deserialize_program(data: bytes) -> Program:
    """Decode a program from the bytes of a `.pdmodel` file; FormatError for other bytes."""
    return read_program(data)


def deserialize_persistables(program: Program, data: bytes | None, executor: Any) -> None:
    """Put the parameters in the bytes of a `.pdiparams` file into the global scope.

    Raises TypeError for another kind of program, FormatError (ValueError) when the bytes do not
    hold exactly the program's parameters.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program type must be `Program`, but received `{type(program)}`")
    variables = stored_variables(program)
    if data is None:
        if variables:
            raise ValueError(
                "Required 'data' shall be not None if program contains parameter, but received "
                "'data' is None."
            )
        return
    for name, tensor in read_combined(data, variables).items():
        put_value(name, tensor.array)


def put_value(name: str, array: np.ndarray[Any, Any]) -> None:
    """Set a variable of the global scope to a copy of an array."""
    scope = global_scope()
    (scope.find_var(name) or scope.var(name)).write(array)


def load_inference_model(path_prefix: str | None, executor: Any, **kwargs: Any) -> list[Any]:
    """Read a saved model: [program, feed names, fetch variables].

    Its parameters are put into the global scope. `path_prefix` is the one of
    `save_inference_model`, or with `model_filename` or `params_filename` a folder with these files.
    There the program is by default `__model__`, and each parameter has its own file without
    `params_filename`. With None these two arguments are the bytes of the files themselves.

    Raises ValueError for unknown arguments and missing folders, FileNotFoundError for missing
    files, FormatError, LimitError and UnsafeError for files that cannot be trusted.
    """
    for argument in kwargs:
        if argument not in ("model_filename", "params_filename", "pserver_endpoints"):
            raise ValueError(
                f"function 'load_inference_model' doesn't support argument '{argument}',\n only "
                "('model_filename', 'params_filename') are supported."
            )
    model_name, params_name = kwargs.get("model_filename"), kwargs.get("params_filename")
    if path_prefix is None:
        return _from_memory(model_name, params_name)
    prefix = _path_prefix(path_prefix)
    if not os.path.isdir(os.path.dirname(prefix)):
        raise ValueError(f"There is no directory named {os.path.dirname(prefix)}")
    settle_at(Path(prefix))
    if not kwargs:
        old, new = Path(f"{prefix}.pdmodel"), Path(f"{prefix}.json")
        if os.path.isfile(prefix) and not old.exists():
            raise MissingModelError(f"no model: looked for {old}; {_instead_of_file(path_prefix)}")
        loaded = load_model(new if new.exists() and not old.exists() else old)
    else:
        folder = Path(prefix)
        params = (
            folder if params_name is None else _variable_file(folder, params_name, ".pdiparams")
        )
        model = _variable_file(folder, model_name or "__model__", ".pdmodel")
        loaded = load_model(model, params)
    for name, array in loaded.parameters.items():
        put_value(name, array)
    return _targets(loaded.program)


def _variable_file(folder: Path, name: str, suffix: str) -> Path:
    with_suffix = folder / f"{name}{suffix}"
    return with_suffix if with_suffix.exists() else folder / name


def _from_memory(model: Any, params: Any) -> list[Any]:
    if params is None:
        raise ValueError("params_filename cannot be None when path_prefix is None.")
    program = deserialize_program(model)
    if stored_variables(program):
        deserialize_persistables(program, params, None)
    return _targets(program)


def _targets(program: Program) -> list[Any]:
    block = program.global_block()
    fetches = [block.var(name) for name in column_names(program, "fetch")]
    return [program, column_names(program, "feed"), fetches]


_OF_VARIABLES = (
    *("get_program_parameter", "get_program_persistable_vars", "is_parameter", "is_persistable"),
    *("load_vars", "save_vars"),
)
lazy.attach(globals(), {name: ("graphopt.static.variable_files", name) for name in _OF_VARIABLES})
