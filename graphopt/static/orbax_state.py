"""The state of a program as an Orbax checkpoint: a folder of arrays, which may be sharded.

All trainers of a job write one checkpoint together, each from its own devices, while the steps
continue. The folder gets its name when it is complete, so a folder of that name can always be read,
on any number of devices. The format is Orbax's, so other programs that use JAX read it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.errors import FormatError, UnsupportedError
from graphopt.ir.dtypes import bfloat16
from graphopt.runtime.distributed.job import current, join
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.state.scope import global_scope
from graphopt.runtime.state.slots import Slot

# the key of a checkpoint's metadata for the shapes of variables saved in parts
_SHAPES = "shapes"

_thread = ThreadPoolExecutor(1, "graphopt-save")
_latest: Future[None] = Future()
_latest.set_result(None)


def _orbax() -> Any:
    """Import Orbax; join the job first, since Orbax queries JAX for the other processes.

    Raises UnsupportedError if Orbax is not installed.
    """
    import_jax()
    join()
    try:
        import orbax.checkpoint
    except ModuleNotFoundError as error:
        if error.name not in ("orbax", "orbax.checkpoint"):
            raise
        raise UnsupportedError(
            "Orbax checkpoints need the package orbax-checkpoint: pip install 'graphopt[orbax]'"
        ) from None
    return orbax.checkpoint


def start_save(folder: Path, values: Mapping[str, Slot | np.ndarray[Any, Any]]) -> Future[None]:
    """Start to write the values of variables in the global scope, or the given arrays.

    Returns when the values have been copied from the devices; the future has a result once the
    folder is complete. One save runs at a time: another one first waits for it. Every trainer
    of a job has to call this.

    Raises FileExistsError for a folder that exists, UnsupportedError without Orbax or for a value
    without elements, which Orbax does not store.
    """
    global _latest
    ocp = _orbax()
    wait([_latest])
    folder = folder.absolute()
    if folder.exists():
        raise FileExistsError(
            f"{folder} exists; save each checkpoint to a new folder, for example named after the "
            "step number"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    if (group := current()) is not None:
        group.barrier()  # it names a trainer that does not save; Orbax would only wait for it
    tree: dict[str, Any] = {}
    shapes: dict[str, list[int]] = {}
    with global_scope().lock:  # until the arrays are copied, no step may donate them
        for name, value in values.items():
            tree[name], whole = value.on_devices() if isinstance(value, Slot) else (value, None)
            if whole is not None:
                shapes[name] = list(whole)
            if not tree[name].size:
                raise UnsupportedError(
                    f"variable '{name}' has no elements, and Orbax does not store empty arrays; "
                    "save in Paddle's format"
                )
        # otherwise, a full disk would be noticed only after minutes
        at_once = ocp.options.AsyncOptions(create_directories_asynchronously=False)
        saver = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), async_options=at_once)
        saver.save(folder, args=ocp.args.PyTreeSave(tree, custom_metadata={_SHAPES: shapes}))

    def finish() -> None:
        try:
            saver.wait_until_finished()
        except Exception as error:  # a script need not read the result
            told = f"{folder} was not saved: {error}"
            print(f"graphopt: {told}", file=sys.stderr, flush=True)
            raise OSError(told) from None  # Orbax's threads have logged the causes
        finally:
            saver.close()

    _latest = _thread.submit(finish)
    return _latest


def read(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of a checkpoint by name, bfloat16 as uint16, as in Paddle's files.

    Raises FormatError for a checkpoint of nested values.
    """
    ocp = _orbax()
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        found = reader.metadata(folder.absolute()).item_metadata
        names = dict(found.tree)
        if any(isinstance(entry, dict | list | tuple) for entry in names.values()):
            raise FormatError(
                f"{folder}: expected a checkpoint of arrays by name, found nested values"
            )
        as_numpy = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
        arguments = ocp.args.PyTreeRestore(restore_args=as_numpy)
        arrays = reader.restore(folder.absolute(), args=arguments)
    for name, shape in (found.custom_metadata or {}).get(_SHAPES, {}).items():
        arrays[name] = arrays[name].reshape(-1)[: prod(shape)].reshape(shape)
    return {
        name: array.view(np.uint16) if array.dtype == bfloat16.numpy else array
        for name, array in arrays.items()
    }
