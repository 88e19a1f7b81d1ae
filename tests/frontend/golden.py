"""Runs recorded cases (tests/data/goldens) through the front end and compares the numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static

FOLDER = Path(__file__).parents[1] / "data" / "goldens"
STEPS = 5


def load_cases() -> list[dict[str, Any]]:
    """The recorded cases."""
    return [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text("utf-8").splitlines()]


_vectors: dict[str, np.ndarray[Any, Any]] = {}


def array(reference: Any) -> np.ndarray[Any, Any]:
    """The array that `[dtype, start, shape]` stands for."""
    if not _vectors:
        with np.load(FOLDER / "arrays.npz") as stored:
            _vectors.update({name: stored[name] for name in stored.files})
    dtype, start, shape = reference
    return _vectors[dtype][start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)


def named(path: str) -> Any:
    """The object that `paddle.a.b` names."""
    found: Any = paddle
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def decode(value: Any, variables: dict[str, Any]) -> Any:
    """A recorded argument as a Python value."""
    if isinstance(value, list):
        return [decode(item, variables) for item in value]
    if not isinstance(value, dict):
        return value
    if "call" in value:
        args = decode(value.get("args", []), variables)
        kwargs = {k: decode(v, variables) for k, v in value.get("kwargs", {}).items()}
        return named(value["call"])(*args, **kwargs)
    ((kind, content),) = value.items()
    simple = {
        "in": lambda: variables[content],
        "np": lambda: array(content),
        "name": lambda: named(content),
        "float": lambda: float(content),
        "tuple": lambda: tuple(decode(content, variables)),
        "slice": lambda: slice(*decode(content, variables)),
        "ellipsis": lambda: ...,
        "complex": lambda: complex(*content),
    }
    return simple[kind]()


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The parts of a nested result with their paths."""
    if not isinstance(value, (list, tuple)):
        yield path, value
        return
    for number, item in enumerate(value):
        yield from leaves(item, f"{path}.{number}".lstrip("."))


def compare(what: str, want: Any, got: Any, tolerance: tuple[float, float]) -> list[str]:
    """What is wrong with a result, [] when nothing is."""
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape or want.dtype != got.dtype:
        return [f"{what}: {got.dtype}{got.shape}, recorded {want.dtype}{want.shape}"]
    if want.dtype.kind not in "fc":
        return [] if np.array_equal(want, got) else [f"{what}: the values differ"]
    rtol, atol = (t * 1e-2 if want.dtype.itemsize == 8 else t for t in tolerance)
    if np.allclose(got, want, rtol, atol, equal_nan=True):
        return []
    return [f"{what}: differs by up to {np.nanmax(np.abs(got - want)):g}"]


class TensorCase:
    """A function, method or layer: results, gradients and buffers."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.inputs = case.get("inputs", {})
        self.feeds = {name: array(item["a"]) for name, item in self.inputs.items()}
        self.layer: Any = None

    def run(self) -> dict[str, Any]:
        """Results by path, gradients as `grad x`, buffers as `state name`."""
        main, startup = static.Program(), static.Program()
        with static.scope_guard(static.Scope()), static.program_guard(main, startup):
            variables = self.declare()
            results = list(leaves(self.call(variables)))
            executor = static.Executor(paddle.CPUPlace())
            if startup.global_block().ops:
                executor.run(startup)
            if self.layer is not None:
                state = self.case.get("state", {})
                self.layer.set_state_dict({k: array(r) for k, r in state.items()})
            fetched = {path: value for path, value in results if paddle.is_tensor(value)}
            fetched.update(self.gradients(variables, list(fetched.values())))
            fetched.update(self.buffers())
            names, targets = list(fetched), list(fetched.values())
            arrays = executor.run(main, self.feeds, targets) if targets else []
        plain = {path: value for path, value in results if not paddle.is_tensor(value)}
        return {**plain, **dict(zip(names, arrays, strict=True))}

    def declare(self) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for name, item in self.inputs.items():
            value = self.feeds[name]
            variable = static.data(name, item.get("shape", list(value.shape)), str(value.dtype))
            variable.stop_gradient = not item.get("grad", False)
            variables[name] = variable
        return variables

    def call(self, variables: dict[str, Any]) -> Any:
        args = decode(self.case.get("args", []), variables)
        kwargs = {k: decode(v, variables) for k, v in self.case.get("kwargs", {}).items()}
        name = self.case["op"]
        if "layer" in self.case:
            self.layer = decode(self.case["layer"], variables)
            if self.case.get("mode") == "eval":
                self.layer.eval()
            return self.layer(*args, **kwargs)
        if not name.startswith("Tensor."):
            return named(name)(*args, **kwargs)
        found = getattr(args[0], name.removeprefix("Tensor."))
        return found(*args[1:], **kwargs) if callable(found) else found

    def gradients(self, variables: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        wanted = {f"grad {n}": v for n, v in variables.items() if self.inputs[n].get("grad")}
        if self.layer is not None:
            parameters = self.layer.state_dict().items()
            trained = {f"grad state:{n}": p for n, p in parameters if not p.stop_gradient}
            wanted.update(trained)
        distinct = {id(result): result for result in results}.values()
        targets = [r for r in distinct if r.dtype.is_differentiable and not r.stop_gradient]
        if "grads" not in self.case or not wanted or not targets:
            return {}
        cotangents: list[Any] = []
        for number, (target, reference) in enumerate(zip(targets, self.case["cot"], strict=False)):
            value = array(reference)
            name = f"cotangent{number}"
            cotangents.append(static.data(name, list(target.shape), str(value.dtype)))
            self.feeds[name] = value
        found = static.gradients(targets, list(wanted.values()), cotangents)
        return {n: g for n, g in zip(wanted, found, strict=True) if g is not None}

    def buffers(self) -> dict[str, Any]:
        if "state_after" not in self.case:
            return {}
        state = self.layer.state_dict()
        return {f"state {name}": state[name] for name in self.case["state_after"]}


def tensor_complaints(case: dict[str, Any]) -> list[str]:
    """What differs from the record of a function, method or layer."""
    got = TensorCase(case).run()
    rtol, atol = case.get("tol", (1e-5, 1e-6))
    paths = [path for path in got if not path.startswith(("grad ", "state "))]
    if paths != [item["path"] for item in case["out"]]:
        return [f"the results are {paths}"]
    found: list[str] = []
    for item in case["out"]:
        path = item["path"]
        if "py" in item:
            found += [] if got[path] == item["py"] else [f"{path}: {got[path]!r}"]
        elif "a" in item:
            found += compare(f"result {path}", array(item["a"]), got[path], (rtol, atol))
        elif list(got[path].shape) != item["shape_only"]:
            found.append(f"{path}: {got[path].shape}")
    for name, reference in case.get("grads", {}).items():
        if reference is not None:
            value = got.get(f"grad {name}", np.zeros(0))
            found += compare(f"grad {name}", array(reference), value, (rtol * 4, atol * 4))
    for name, reference in case.get("state_after", {}).items():
        found += compare(f"state {name}", array(reference), got[f"state {name}"], (rtol, atol))
    return found


def random_complaints(case: dict[str, Any]) -> list[str]:
    """Which of the recorded facts a random result does not satisfy."""
    (value,) = TensorCase(case).run().values()
    numbers = value.astype("float64")
    facts = {
        "shape": list(value.shape),
        "dtype": str(value.dtype),
        "mean": numbers.mean(),
        "std": numbers.std(),
        "min": numbers.min(),
        "max": numbers.max(),
        "zeros": (numbers == 0).mean(),
    }
    checks = {
        name: abs(facts[name] - want[0]) <= want[1]
        if isinstance(want, list) and name != "shape"
        else facts[name] >= want
        if name == "min"
        else facts[name] <= want
        if name == "max"
        else facts[name] == want
        for name, want in case["facts"].items()
        if name in facts
    }
    return [f"{name}: {facts[name]}" for name, holds in checks.items() if not holds]


def optimizer_complaints(case: dict[str, Any]) -> list[str]:
    """What differs after any of five steps of a small regression."""
    history: dict[str, list[Any]] = {name: [] for name in case["history"]}
    main, startup = static.Program(), static.Program()
    with static.scope_guard(static.Scope()), static.program_guard(main, startup):
        x = static.data("x", [None, 4], case["dtype"])
        y = static.data("y", [None, 2], case["dtype"])
        weights = {name: _weight(case, name) for name in ("w1", "b1", "w2")}
        hidden = paddle.tanh(paddle.matmul(x, weights["w1"]) + weights["b1"])
        error = paddle.matmul(hidden, weights["w2"]) - y
        loss = paddle.mean(paddle.square(error)) * case.get("loss_scale", 1.0)
        optimizer = decode(case["optimizer"], {})
        optimizer.minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for step in range(STEPS):
            feed = {"x": array(case["x"])[step], "y": array(case["y"])[step]}
            history["loss"].append(executor.run(main, feed=feed, fetch_list=[loss])[0])
            for name, weight in weights.items():
                history[name].append(weight.get_value().numpy())
            if isinstance(optimizer._learning_rate, paddle.optimizer.lr.LRScheduler):
                optimizer._learning_rate.step()
    tolerance = case.get("tol", (1e-5, 1e-6))
    found: list[str] = []
    for name, values in history.items():
        want = array(case["history"][name])
        found += compare(name, want, np.reshape(np.stack(values), want.shape), tolerance)
    return found


def _weight(case: dict[str, Any], name: str) -> Any:
    value = array(case["state"][name])
    extra = {k: decode(v, {}) for k, v in case.get("attr", {}).get(name, {}).items()}
    attr = paddle.ParamAttr(name, paddle.nn.initializer.Assign(value), **extra)
    return static.create_parameter(list(value.shape), case["dtype"], attr=attr)


def schedule_complaints(case: dict[str, Any]) -> list[str]:
    """What differs among the first rates of a schedule."""
    schedule = decode(case["scheduler"], {})
    rates: list[float] = []
    for step in range(case["steps"]):
        rates.append(schedule())
        schedule.step(*([case["metrics"][step]] if case.get("metrics") else []))
    return compare("rates", array(case["values"]), np.array(rates), case.get("tol", (1e-5, 1e-6)))


COMPLAINTS = {
    "op": tensor_complaints,
    "layer": tensor_complaints,
    "random": random_complaints,
    "optimizer": optimizer_complaints,
    "lr": schedule_complaints,
}


def complaints(case: dict[str, Any]) -> list[str]:
    """What differs from the record, and from every other release's answer that counts."""
    check = COMPLAINTS[case["kind"]]
    found = check(case)
    for other in case.get("alt", ()):
        if found:
            found = check({**case, **other}) and found
    return found
