"""Executables on disk by what they are made of, so that a known program is not even traced.

JAX finds what it has on disk by a lowered program, and tracing and lowering a model take longer
than loading its executable. An entry here is found by the text of the optimised module, the types
of its arguments and all else that a trace depends on; where the program has a key (`program_key`),
by that in place of the text. Entries are beside JAX's, in the directory
of `cache.py`, and only where that is ours: like JAX's, they are code that is run.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from pickle import PicklingError, UnpicklingError
from typing import Any

import jax
from jax.experimental import serialize_executable

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.cache import use_cache
from graphopt.runtime.disk.directory import most_bytes
from graphopt.runtime.disk.entries import hash_value, read_entry, write_entry
from graphopt.runtime.disk.in_child import CODE, Job
from graphopt.runtime.disk.lapack import prepare_calls
from graphopt.runtime.disk.own_code import code_settings, rules_are_ours
from graphopt.runtime.disk.summaries import note_program

FOLDER = "steps"
# arrays, or their types, as a step takes them
Arguments = tuple[Any, ...]
# of XLA
Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class KnownExecutables:
    """The executables on disk of one program for certain arguments, by the options of XLA.

    `results` has the structure of what a step returns.
    """

    folder: Path
    name: str
    device: Any
    arguments: Arguments
    results: Any
    compiled: Compiled
    key: str | None
    """The key that the program had; one that has lost it is kept no more."""

    @classmethod
    def of(
        cls, compiled: Compiled, replicated: Replicated, arguments: Arguments
    ) -> KnownExecutables | None:
        """Those of a program for arguments of these types; None where nothing is kept.

        Nothing is kept of programs over several devices, of those that call Python (to check
        numbers, too), or with rules from elsewhere, whose code this does not know.
        """
        directory = use_cache()
        kept = replicated.name == "alone" and not compiled.calls_python
        if directory is None or not (kept and compiled.is_kept) or not rules_are_ours():
            return None
        device = device_of(compiled.compilation.places[0])
        if device.platform != "cpu":
            return None
        plan = compiled.plan
        parts = (
            compiled.key or compiled.text,
            [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments)],
            str(jax.tree.structure(arguments)),
            (plan.steps, sorted(plan.stacked), replicated.donates, device.id),
            settings(),
        )
        results = tuple(plan.fetches), tuple(plan.written)
        structure = jax.tree.structure(results)
        folder, name = directory / FOLDER, hash_value(parts)
        return cls(folder, name, device, arguments, structure, compiled, compiled.key)

    def load(self, options: Options) -> Any:
        """The executable; None when there is none, or none that can be loaded."""
        made = read_entry(self._file(options), self._load)
        if made is not None:
            note_program(self.compiled, self.folder.parent)
        return made

    def _load(self, payload: bytes) -> jax.stages.Compiled:
        prepare_calls(payload)
        reader = _ExecutableReader(io.BytesIO(payload), self.device.client, [self.device])
        unloaded, types, no_kwargs = reader.load()
        structure = jax.tree.structure((self.arguments, {}))
        return jax.stages.Compiled(
            unloaded.load(), [], structure.unflatten(types), self.results, no_kwargs=no_kwargs
        )

    def save(self, options: Options, executable: jax.stages.Compiled) -> bool:
        """Keep an executable, if JAX can write it and there is room on the disk; True then."""
        try:
            payload, _, _ = serialize_executable.serialize(executable)
        except (AttributeError, NotImplementedError, PicklingError, TypeError, ValueError):
            return False
        if self.compiled.key != self.key:
            return False
        if not write_entry(self._file(options), payload, most_bytes()):
            return False
        note_program(self.compiled, self.folder.parent)
        return True

    def job(self, options: Options, lowered: Any) -> Job | None:
        """The compilation of a lowered program for another process, which keeps it.

        None where JAX lacks what this needs.
        """
        found = _compilation_of(lowered, options)
        if found is None or self.compiled.key != self.key:
            return None
        module, made_options, like = found
        try:
            record = _record_of(like)
        except (AttributeError, NotImplementedError, PicklingError, TypeError, ValueError):
            return None
        devices = len(self.device.client.devices())
        file = str(self._file(options))
        return Job(module, made_options, self.device.id, devices, record, file, most_bytes())

    def _file(self, options: Options) -> Path:
        return self.folder / hash_value((self.name, sorted((options or {}).items())))


class _CodeRecorder(serialize_executable._JaxPjrtPickler):
    """Writes an executable as JAX does, with CODE in place of its code."""

    def persistent_id(self, obj: Any) -> Any:
        """The name of what is not pickled; None for anything else."""
        xla: Any = serialize_executable
        if isinstance(obj, (xla.xc.LoadedExecutable, xla._jax.Executable)):
            return "exec", CODE
        return super().persistent_id(obj)


def _record_of(executable: Any) -> bytes:
    """An executable as `serialize` writes it, without its code."""
    types, _ = jax.tree.flatten(executable.args_info)
    parts = executable._executable._unloaded_executable, types, executable._no_kwargs
    with io.BytesIO() as file:
        _CodeRecorder(file).dump(parts)
        return file.getvalue()


_handing = threading.local()


def _compilation_of(lowered: Any, options: Options) -> tuple[bytes, bytes, Any] | None:
    """A module and options as XLA takes them, and an executable of the same types.

    That computes nothing, and so takes no time to compile. None where JAX compiles in another way.
    """
    try:
        from jax._src import compiler
    except ImportError:
        return None
    compile_module = getattr(compiler, "compile_or_get_cached", None)
    if compile_module is None:
        return None
    found: list[tuple[bytes, bytes]] = []

    def hand_over(backend: Any, module: Any, devices: Any, options: Any, *rest: Any, **more: Any):
        if getattr(_handing, "over", False):
            with io.BytesIO() as file:
                module.operation.write_bytecode(file)
                found.append((file.getvalue(), options.SerializeAsString()))
            module = without_work(module)
        return compile_module(backend, module, devices, options, *rest, **more)

    compiler.compile_or_get_cached, _handing.over = hand_over, True
    try:
        like = lowered.compile(dict(options) if options else None)
    except (AttributeError, ImportError, RuntimeError, TypeError, ValueError):
        return None
    finally:
        compiler.compile_or_get_cached, _handing.over = compile_module, False
    return (*found[0], like) if found else None


def without_work(module: Any) -> Any:
    """A StableHLO module with the arguments of this one whose results are zeros."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func
    from jax.extend.mlir.dialects import stablehlo as hlo

    def zeros(type_: Any) -> Any:
        element = ir.RankedTensorType(type_).element_type
        if isinstance(element, ir.ComplexType):
            shape = ir.RankedTensorType(type_).shape
            part = zeros(ir.RankedTensorType.get(shape, element.element_type))
            return hlo.complex(part, part)
        of = ir.IntegerAttr if isinstance(element, ir.IntegerType) else ir.FloatAttr
        return hlo.constant(ir.DenseElementsAttr.get_splat(type_, of.get(element, 0)))

    with module.context, ir.Location.unknown():
        made = ir.Module.parse(module.operation.get_asm(binary=True))
        for op in [each for each in made.body.operations if isinstance(each, func.FuncOp)]:
            if op.name.value != "main":
                op.operation.erase()
                continue
            block = op.regions[0].blocks[0]
            *ops, last = block.operations
            types = [value.type for value in last.operands]
            for inner in (last, *reversed(ops)):
                inner.operation.erase()
            with ir.InsertionPoint(block):
                func.ReturnOp([zeros(each) for each in types])
    return made


class _ExecutableReader(serialize_executable._JaxPjrtUnpickler):
    """Reads an executable as `jax.experimental.serialize_executable` does, which takes any class.

    A pickle may name any function to be called. Here it gets what the record of an executable is
    made of, and nothing else.
    """

    def find_class(self, module: str, name: str, /) -> Any:
        """The class or function of this name; UnpicklingError for one that no executable has."""
        if (module, name) == ("builtins", "getattr"):  # as the first releases of 3.11 write enums
            return _member
        if name not in _NAMES or module.partition(".")[0] not in ("jax", "jaxlib", "numpy"):
            raise UnpicklingError(f"{module}.{name} is no part of an executable")
        return super().find_class(module, name)


def _member(owner: object, name: str) -> Enum:
    """The member of an enumeration; UnpicklingError for an attribute of anything else."""
    if isinstance(owner, type) and issubclass(owner, Enum) and name in owner.__members__:
        return owner[name]
    raise UnpicklingError(f"{owner!r}.{name} is no part of an executable")


# the classes, and the functions that make some of them
_NAMES = frozenset(
    (
        *("AbstractMesh", "AllArgsInfo", "ArgInfo", "AutoLayoutSingleton", "DebugInfo"),
        *("DeviceList", "Layout"),
        *("ManualAxisType", "MemorySpace", "P", "PartitionSpec", "ShapedArray"),
        *("UnloadedMeshExecutable", "_unpickle_named_sharding"),
        *("_unpickle_single_device_sharding", "dtype"),
    )
)


def types_of(arguments: Arguments) -> Arguments:
    """The types of arrays, to lower a program for them; nothing keeps the arrays then."""

    def type_of(array: Any) -> jax.ShapeDtypeStruct:
        sharding = array.sharding if isinstance(array, jax.Array) else None
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    return jax.tree.map(type_of, arguments)


def settings() -> tuple[Any, ...]:
    """The versions and settings that a trace and a compilation depend on."""
    config: Any = jax.config
    values = {name: str(value) for name, value in config.values.items() if "cache" not in name}
    return *code_settings(), sorted(values.items())
