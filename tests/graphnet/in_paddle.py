"""Graphs of GraphNet, run and saved by Paddle 3.

PYTHON_WITH_PADDLE tests/graphnet/in_paddle.py

Each line of the input is a JSON list FOLDER, OUT. Executes `FOLDER/model.py` in static mode with
parameters and inputs as `weight_meta.py` and `input_meta.py` describe them, writes the model, its
inputs and its outputs into OUT, and answers with a line of JSON: the error, or an empty text.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import paddle


def load(file: Path) -> ModuleType:
    """Load a file as a module."""
    spec = importlib.util.spec_from_file_location(f"graph_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described_tensors(file: Path) -> Iterator[Any]:
    """Yield the classes of a file of descriptions, one for each tensor."""
    if file.exists():
        for value in vars(load(file)).values():
            if isinstance(value, type) and hasattr(value, "shape"):
                yield value


def make_array(tensor: Any, random: np.random.Generator) -> np.ndarray:
    """Make an array in the described range: the recorded data, or normal, or uniform numbers."""
    shape = [1 if size is None else size for size in tensor.shape]
    if (data := getattr(tensor, "data", None)) is not None:
        return np.asarray(data, tensor.dtype).reshape(shape)
    low, high = getattr(tensor, "min_val", 0), getattr(tensor, "max_val", 2)
    if tensor.dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if not tensor.dtype.startswith("float"):
        return random.integers(low, max(high, low) + 1, shape).astype(tensor.dtype)
    if not np.isfinite([low, high]).all():
        return with_infinities(shape, low, high, random).astype(tensor.dtype)
    if (std := getattr(tensor, "std", None)) is None:
        return random.uniform(low, high, shape).astype(tensor.dtype)
    numbers = random.normal(tensor.mean, std, shape)
    outside = (numbers < low) | (numbers > high)  # not clipped, as a sort would see equal numbers
    return np.where(outside, random.uniform(low, high, shape), numbers).astype(tensor.dtype)


def with_infinities(
    shape: list[int], low: float, high: float, random: np.random.Generator
) -> np.ndarray:
    """Draw uniform numbers; an infinite bound takes about one place in 16."""
    ends = [end for end in (low, high) if np.isfinite(end)]
    side = max(map(abs, ends), default=1.0)
    numbers = random.uniform(*(np.clip(end, -side, side) for end in (low, high)), shape)
    for end in {low, high}.difference(ends):
        numbers[random.integers(0, 16, shape) == 0] = end
    return numbers


def make_input(tensor: Any, random: np.random.Generator) -> np.ndarray:
    """Make an input; arrays that may be boxes get ordered corners, as roi_align requires."""
    array = make_array(tensor, random)
    is_boxes = array.shape[1:] == (4,) and array.dtype.kind == "f"
    if not is_boxes or getattr(tensor, "data", None) is not None:
        return array
    return np.sort(array.reshape(-1, 2, 2), 1).reshape(array.shape)


def declare(name: str, value: np.ndarray, parameter: bool) -> Any:
    """Declare a parameter, or a variable to feed."""
    if not parameter:
        return paddle.static.data(name, list(value.shape), str(value.dtype))
    return paddle.create_parameter(
        list(value.shape),
        str(value.dtype),
        name=name,
        default_initializer=paddle.nn.initializer.Constant(0.0),
    )


def named_outputs(found: Any) -> list[Any]:
    """List the tensors that the graph returns."""
    every = found if isinstance(found, (list, tuple)) else [found]
    return [value for value in every if isinstance(value, paddle.pir.Value)]


def find_used(outputs: list[Any]) -> set[str]:
    """Find the names of the feeds that the outputs depend on."""
    used: set[str] = set()
    seen: set[int] = set()
    waiting = [value.get_defining_op() for value in outputs]
    while waiting:
        op = waiting.pop()
        if op is None or op.id() in seen:
            continue
        seen.add(op.id())
        if op.name() == "pd_op.data":
            used.add(op.attrs()["name"])
        waiting += [value.get_defining_op() for value in op.operands_source()]
        waiting += [inner for block in op.blocks() for inner in block.ops]
    return used


def save(folder: Path, out: Path) -> None:
    """Write the model, its inputs and its outputs."""
    random = np.random.default_rng(0)
    parameters = {
        t.name: make_array(t, random) for t in described_tensors(folder / "weight_meta.py")
    }
    feeds = {t.name: make_input(t, random) for t in described_tensors(folder / "input_meta.py")}
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        graph = load(folder / "model.py").GraphModule()
        wanted = inspect.signature(graph.forward).parameters
        variables = {
            name: declare(name, value, parameter)
            for values, parameter in ((parameters, True), (feeds, False))
            for name, value in values.items()
            if name in wanted
        }
        outputs = named_outputs(graph(**variables))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        scope = paddle.static.global_scope()
        for name, value in parameters.items():
            if name in variables:
                scope.find_var(name).get_tensor().set(value, paddle.CPUPlace())
        used = find_used(outputs)
        fed = {name: feeds[name] for name in variables if name in feeds and name in used}
        paddle.static.save_inference_model(
            str(out / "model"), [variables[name] for name in fed], outputs, executor, program=main
        )
    program, names, fetches = paddle.static.load_inference_model(str(out / "model"), executor)
    results = executor.run(program, feed={n: fed[n] for n in names}, fetch_list=fetches)
    np.savez(out / "inputs.npz", **fed)
    np.savez(out / "outputs.npz", **{str(i): np.asarray(r) for i, r in enumerate(results)})


def main() -> None:
    """Answer each line of the input."""
    paddle.enable_static()
    for line in sys.stdin:
        folder, out = map(Path, json.loads(line))
        why = ""
        try:
            with paddle.static.scope_guard(paddle.static.Scope()), paddle.utils.unique_name.guard():
                save(folder, out)
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).strip()}"
        print(json.dumps(why), flush=True)


if __name__ == "__main__":
    main()
