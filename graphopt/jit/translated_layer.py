"""TranslatedLayer: a saved model as a layer (paddle.jit.load)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np

from graphopt.errors import FormatError
from graphopt.ir.formats.files import read_one
from graphopt.ir.formats.pickle.reader import read_pickle
from graphopt.ir.program import (
    EMPTY,
    Block,
    Program,
    Variable,
    default_main_program,
    undo,
    unique_name,
)
from graphopt.ir.translate.inference import block_indices
from graphopt.jit.static_function import StaticFunction
from graphopt.models.model import ImportedModel, read_model
from graphopt.nn.layer.layers import Layer
from graphopt.runtime.state.scope import global_scope
from graphopt.static.input import InputSpec

# the file name suffixes of a saved layer
INFER_MODEL_SUFFIX = _SUFFIX = ".pdmodel"
INFER_PARAMS_SUFFIX = ".pdiparams"
INFER_PARAMS_INFO_SUFFIX = ".pdiparams.info"
_NEWER_SUFFIX = ".json"  # of Paddle 3
Array = np.ndarray[Any, Any]


def load(path: str, **configs: Any) -> TranslatedLayer:
    """Load the layer that was saved as `path`.pdmodel, or as `path`.json (paddle.jit.load).

    The files come from `jit.save` or `save_inference_model`, of Paddle or graphopt. Of two files
    the .pdmodel is loaded, unless `path` ends with .json. `params_filename` names the file of the
    parameters in the same folder. Raises ValueError when there is no such file and for an unknown
    argument, FormatError, LimitError and UnsafeError for files that cannot be trusted.
    """
    for name in configs:
        if name not in ("model_filename", "params_filename", "keep_name_table"):
            raise ValueError(
                f"The additional config ({name}) of `paddle.jit.load` is not supported."
            )
    is_newer = path.endswith(_NEWER_SUFFIX)
    stem = Path(path.removesuffix(_NEWER_SUFFIX if is_newer else _SUFFIX))
    files: dict[str, Path] = {}
    for suffix in (_NEWER_SUFFIX, _SUFFIX) if is_newer else (_SUFFIX, _NEWER_SUFFIX):
        files = files or _files_of(stem, suffix, configs.get("model_filename"))
    if not files:
        raise ValueError(
            f"The ``path`` ({path}) to load model not exists. Please make sure that *.pdmodel "
            "or *.json exists or don't using ``skip_forward=True`` to jit.save."
        )
    named = configs.get("params_filename")
    params = stem.with_name(named) if named else None
    models = {name: read_model(file, params) for name, file in files.items()}
    info = _trainable(models.values()) | _info(Path(f"{stem}{INFER_PARAMS_INFO_SUFFIX}"))
    return TranslatedLayer(models, info)


def _files_of(stem: Path, suffix: str, named: str | None) -> dict[str, Path]:
    """Find the file of each method; `named` is the name of the file of `forward`."""
    forward = stem.with_name(named or stem.name + suffix)
    files = {"forward": forward} if forward.is_file() else {}
    for file in sorted(stem.parent.glob(f"{escape(stem.name)}.*{suffix}")):
        method = file.name.removesuffix(suffix).removeprefix(f"{stem.name}.")
        if method.isidentifier():
            files[method] = file
    return files


def _trainable(models: Iterable[ImportedModel]) -> dict[str, Any]:
    """Collect which parameters are trainable, which only a file of Paddle 3 says itself."""
    return {
        variable.name: {"trainable": variable.trainable}
        for model in models
        if model.path.suffix == _NEWER_SUFFIX
        for variable in model.program.all_parameters()
    }


def _info(file: Path) -> dict[str, Any]:
    """Read the notes of `jit.save` about the parameters; {} without that file."""
    if not file.is_file():
        return {}
    found = read_pickle(read_one(file), str(file))
    if not isinstance(found, dict):
        raise FormatError(f"{file}: expected a dict, found a {type(found).__name__}")
    return found


class TranslatedLayer(Layer):
    """A layer whose methods are saved programs (Paddle page: paddle.jit.TranslatedLayer).

    `paddle.jit.load` creates it. Its parameters have new names, and values of their own in the
    global scope. It can be called with arrays, inside traced functions, or with Variables of a
    program under construction, and can be saved again. In training mode dropout and batch
    normalization of the program train.
    """

    def __init__(self, models: Mapping[str, ImportedModel], info: Mapping[str, Any]) -> None:
        super().__init__()
        arrays: dict[str, Array] = {}
        for model in models.values():
            arrays.update(model.parameters)
        object.__setattr__(self, "_programs", {n: m.program for n, m in models.items()})
        renamed = {name: self._state(name, arrays[name], info) for name in sorted(arrays)}
        for name, model in models.items():
            inlined = _Inlined(model, renamed)
            spec = [inlined.spec(feed) for feed in model.feed_names]
            object.__setattr__(self, name, StaticFunction(MethodType(inlined, self), spec))
        self.eval()

    def _state(self, name: str, array: Array, info: Mapping[str, Any]) -> Variable:
        """Create a parameter or a buffer with this value."""
        about = info.get(name, {"trainable": True})
        block = default_main_program().global_block()
        own = unique_name.generate(name.rpartition("_")[0] or name)
        if "trainable" in about:
            trainable = bool(about["trainable"])
            made: Variable = block.create_parameter(
                own, array.shape, array.dtype, trainable=trainable
            )
            self.add_parameter(f"param_{len(self._parameters)}", made)
        else:
            made = block.create_var(own, array.shape, array.dtype, persistable=True)
            made.stop_gradient = True
            self.register_buffer(f"buffer_{len(self._buffers)}", made)
        global_scope().var(own).put(np.array(array))
        return made

    def program(self, method_name: str = "forward") -> Program:
        """Return the loaded program of a method; raise ValueError for an unknown method."""
        if method_name not in self._programs:
            raise ValueError(
                f"the layer has no method '{method_name}'; its methods are "
                f"{', '.join(self._programs)}"
            )
        return self._programs[method_name]


class _Inlined:
    """The operators of a saved program, appended to the current one with its inputs."""

    def __init__(self, model: ImportedModel, state: Mapping[str, Variable]) -> None:
        self.model, self.state = model, state
        self.__name__ = self.__qualname__ = model.path.stem

    def spec(self, name: str) -> InputSpec:
        """Return the specification of an input."""
        variable = self.model.program.global_block().var(name)
        return InputSpec(variable.shape, variable.dtype, name)

    def __call__(self, layer: Layer, *inputs: Variable) -> Any:
        """Append the operators; return the output, or a list of several."""
        names = dict(zip(self.model.feed_names, (v.name for v in inputs), strict=True))
        with undo.transaction():
            copy = _Copy(self.model.program, names, self.state, training=layer.training)
            target = default_main_program().current_block()
            copy.block(0, target)
            found = [target.find_var(copy.name(name)) for name in self.model.fetch_names]
        return found[0] if len(found) == 1 else found


class _Copy:
    """Operators of one program in another, whose variables get new names."""

    def __init__(
        self,
        source: Program,
        names: dict[str, str],
        state: Mapping[str, Variable],
        *,
        training: bool,
    ) -> None:
        self.source, self.names, self.training = source, names, training
        self.names.update((name, variable.name) for name, variable in state.items())

    def name(self, name: str) -> str:
        """Map a name to its name in the new program."""
        if name != EMPTY and name not in self.names:
            self.names[name] = unique_name.generate(f"translated_layer/{name}")
        return self.names.get(name, name)

    def block(self, index: int, target: Block) -> None:
        """Append the operators of a block."""
        source, program = self.source.block(index), target.program
        for op in source.ops:
            if op.type in ("feed", "fetch"):
                continue
            for name in (*op.input_arg_names, *op.output_arg_names):
                if name in source.vars and target.find_var(self.name(name)) is None:
                    twin = source.vars[name].copy_to(target)
                    twin.name = self.name(name)
                    target._declare(twin)
            twin = op.copy_to(target)
            twin.saved = None
            for slots in (twin.inputs, twin.outputs):
                for slot, names in slots.items():
                    slots[slot] = [self.name(name) for name in names]
            if self.training and "is_test" in twin.attrs:
                twin.attrs["is_test"] = False
            for inner in block_indices(op):
                made = program._create_block(target.idx)
                self.block(inner, made)
                program.current_block_idx = target.idx
                twin.attrs["sub_block"] = made.idx
            undo.note(target.ops.pop)
            target.ops.append(twin)
        program.touch()
