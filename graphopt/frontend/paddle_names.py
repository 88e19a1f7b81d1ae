"""`import paddle` as graphopt: an importer for one process, and hints for missing names.

A module `paddle.x` is the very module `graphopt.x`, so that no class exists twice.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from graphopt.frontend.absent import AbsentModule
from graphopt.frontend.version import now_fluid

# modules of paddle that have another name here
_RENAMED: Mapping[str, str] = {
    "paddle.base": "graphopt.fluid",
}
_DYNAMIC = "graphopt runs static programs only"

# modules of paddle that are missing: what to use instead
MISSING: Mapping[str, str] = {
    "paddle.amp": "cast where it pays, or set strategy flags; XLA does not change float32",
    "paddle.autograd": "paddle.static.append_backward and paddle.static.gradients",
    "paddle.audio": "compute features with NumPy or librosa, and feed them",
    "paddle.callbacks": f"{_DYNAMIC}: write the loop around exe.run",
    "paddle.distributed.fleet": "static.CompiledProgram(program).with_data_parallel(loss_name)",
    "paddle.distributed.launch": "python -m graphopt.launch --nproc N script.py",
    "paddle.distribution": "paddle.fluid.layers has Normal, Uniform, Categorical",
    "paddle.fft": "numpy.fft on what you feed and fetch; saved models may have the operators",
    "paddle.fluid.contrib": "the layers and optimizers of paddle.fluid",
    "paddle.fluid.dygraph": f"{_DYNAMIC}: fluid.layers and fluid.Executor",
    "paddle.fluid.incubate.fleet": "fluid.CompiledProgram(program).with_data_parallel(loss_name)",
    "paddle.geometric": "gather and scatter_nd_add",
    "paddle.hapi": f"{_DYNAMIC}: a Program, an optimizer's minimize and static.Executor.run",
    "paddle.hub": "download the model by hand, and static.load_inference_model",
    "paddle.jit": f"{_DYNAMIC}: build the Program with paddle.static.program_guard",
    "paddle.onnx": "static.save_inference_model",
    "paddle.profiler": "program.explain() of a CompiledProgram, and jax.profiler",
    "paddle.quantization": "saved quantised models are read without conversion",
    "paddle.signal": "frames with NumPy before feeding",
    "paddle.sparse": "dense tensors and masks",
    "paddle.static.amp": "float32 as the program has it, or paddle.cast where a half type pays",
    "paddle.static.quantization": "saved quantised models are read without conversion",
    "paddle.sysconfig": "nothing: there is no native library",
    "paddle.vision.models": "static.load_inference_model of a saved model",
    "paddle.vision.ops": "paddle.fluid.layers has roi_align, roi_pool, psroi_pool, yolo_box, …",
}


def missing(name: str) -> str | None:
    """The reason why graphopt lacks `paddle.x.y`, and a replacement; None for an unknown name."""
    while "." in name:
        if name in MISSING:
            return f"graphopt has no {name}. Instead: {MISSING[name]}"
        name = name.rpartition(".")[0]
    return None


class PaddleFinder(MetaPathFinder):
    """Finds `paddle` and its modules as those of graphopt."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of paddle; None for other modules.

        A module that graphopt is known to lack can be imported, and refuses each call; for others
        ModuleNotFoundError is raised.
        """
        if fullname.partition(".")[0] != "paddle":
            return None
        if fullname == "paddle.fluid":
            now_fluid()
        own = own_name(fullname)
        try:
            found = importlib.util.find_spec(own)
        except (ModuleNotFoundError, ValueError):
            found = None
        if found is None:
            words = missing(fullname)
            if words is None:
                raise ModuleNotFoundError(f"graphopt has no module {fullname}", name=fullname)
            return ModuleSpec(fullname, _Absent(words), is_package=True)
        return ModuleSpec(
            fullname,
            _SameModule(own),
            is_package=found.submodule_search_locations is not None,
        )


def own_name(name: str) -> str:
    """The name here of a module of paddle."""
    for theirs, ours in _RENAMED.items():
        if name == theirs or name.startswith(f"{theirs}."):
            return ours + name.removeprefix(theirs)
    return "graphopt" + name.removeprefix("paddle")


class _SameModule(Loader):
    """Returns a module of graphopt itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has put its own spec there
        module.__spec__ = self.spec


class _Absent(Loader):
    """Makes the module that stands for one that graphopt lacks."""

    def __init__(self, words: str) -> None:
        self.words = words

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name, self.words)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def forget() -> None:
    """Take every `paddle` module out of those that are imported."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "paddle"]:
        module = sys.modules.pop(name)
        if isinstance(module, AbsentModule):
            # the import system has put it into the module of graphopt that is above it
            parent, _, last = name.rpartition(".")
            vars(sys.modules.get(own_name(parent), module)).pop(last, None)


def hint(error: BaseException) -> str | None:
    """Advice to add to an error about a name that graphopt lacks; None for other errors."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        module, name = error.obj.__name__, error.name
    elif isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        found = re.match(r"cannot import name '(\w+)'", str(error))
        module, name = error.name, found.group(1) if found else ""
    else:
        return None
    if not module or module.partition(".")[0] != "graphopt":
        return None
    full = f"paddle{module.removeprefix('graphopt')}.{name}".rstrip(".")
    return missing(full) or f"graphopt has no {full}"
