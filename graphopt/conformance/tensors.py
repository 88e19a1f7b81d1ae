"""Cases of functions, methods and layers: results, gradients and buffers of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphopt as paddle
from graphopt.conformance.cases import Case, Corpus, Decoder, find_by_path
from graphopt.conformance.compare import (
    TOLERANCE,
    Finding,
    differs,
    differs_plainly,
    facts_of,
    leaves,
    violates,
)

# The factor by which the tolerance for gradients exceeds the tolerance for results.
_GRADIENTS = 4


class TensorCase:
    """One call in a program of its own, in static mode of 2.x or in the form of fluid 1.8."""

    def __init__(self, corpus: Corpus, case: Case) -> None:
        self.case = case
        self.decoder = Decoder(corpus, case)
        self.is_fluid = case["oracle"] == "1.8.5"
        self.inputs: dict[str, Any] = case.get("inputs", {})
        self.feeds: dict[str, Any] = {n: self.decoder.array(i["a"]) for n, i in self.inputs.items()}
        self.layer: Any = None
        self.lengths: dict[str, Any] = {}
        self.operators: set[str] = set()

    def run(self) -> dict[str, Any]:
        """Run the call; return results by path, gradients as `grad x`, buffers as `state name`."""
        static = paddle.static
        main, startup = static.Program(), static.Program()
        with static.scope_guard(static.Scope()), static.program_guard(main, startup):
            variables = self._declare()
            results = list(leaves(self._call(variables)))
            self.operators = {op.type for op in main.global_block().ops}
            # tensors fetched by fluid's executor have their sequence lengths
            made_by: Any = paddle.fluid if self.is_fluid else static
            executor = made_by.Executor()
            if startup.global_block().ops:
                executor.run(startup)
            if self.layer is not None:
                state = self.case.get("state", {})
                self.layer.set_state_dict({k: self.decoder.array(r) for k, r in state.items()})
            wanted = {path: value for path, value in results if paddle.is_tensor(value)}
            wanted |= self._gradients(variables, list(wanted.values())) | self._buffers()
            fetched = self._fetch(executor, main, wanted)
        plain = {path: value for path, value in results if not paddle.is_tensor(value)}
        # results in the order of the call, then gradients and buffers
        return {path: plain.get(path) for path, _ in results} | plain | fetched

    def _fetch(self, executor: Any, main: Any, wanted: dict[str, Any]) -> dict[str, Any]:
        if not wanted:
            return {}
        values = executor.run(
            main, self.feeds, list(wanted.values()), return_numpy=not self.is_fluid
        )
        if self.is_fluid:
            lengths = [value.recursive_sequence_lengths() for value in values]
            self.lengths = dict(zip(wanted, lengths, strict=True))
        return dict(zip(wanted, map(np.asarray, values), strict=True))

    def _declare(self) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for name, item in self.inputs.items():
            value = self.feeds[name]
            shape, dtype = item.get("shape", list(value.shape)), str(value.dtype)
            if "lod" in item:
                fluid: Any = paddle.fluid
                variables[name] = fluid.data(name, shape, dtype, lod_level=len(item["lod"]))
                self.feeds[name] = fluid.create_lod_tensor(value, item["lod"], fluid.CPUPlace())
            else:
                variables[name] = paddle.static.data(name, shape, dtype)
            variables[name].stop_gradient = not item.get("grad", False)
        return variables

    def _call(self, variables: dict[str, Any]) -> Any:
        args = self.decoder.decode(self.case.get("args", []), variables)
        given = self.case.get("kwargs", {})
        kwargs = {name: self.decoder.decode(value, variables) for name, value in given.items()}
        if "layer" in self.case:
            self.layer = self.decoder.decode(self.case["layer"], variables)
            self.layer.eval() if self.case.get("mode") == "eval" else self.layer.train()
            return getattr(self.layer, self.case.get("method", "__call__"))(*args, **kwargs)
        name = self.case["op"]
        if not name.startswith("Tensor."):
            return find_by_path(name)(*args, **kwargs)
        found = getattr(args[0], name.removeprefix("Tensor."))
        return found(*args[1:], **kwargs) if callable(found) else found

    def _gradients(self, variables: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        wanted = {f"grad {n}": v for n, v in variables.items() if self.inputs[n].get("grad")}
        if self.layer is not None:
            # a parameter with two names counts once
            parameters = {id(p): (n, p) for n, p in reversed(self.layer.state_dict().items())}
            wanted |= {f"grad state:{n}": p for n, p in parameters.values() if not p.stop_gradient}
        distinct = {id(result): result for result in results}.values()
        targets = [r for r in distinct if r.dtype.is_differentiable and not r.stop_gradient]
        if "grads" not in self.case or not wanted or not targets:
            return {}
        cotangents: list[Any] = []
        for number, (target, reference) in enumerate(zip(targets, self.case["cot"], strict=False)):
            value = self.decoder.array(reference)
            name = f"cotangent{number}"
            cotangents.append(paddle.static.data(name, list(target.shape), str(value.dtype)))
            self.feeds[name] = value
        found = paddle.static.gradients(targets, list(wanted.values()), cotangents)
        return {n: g for n, g in zip(wanted, found, strict=True) if g is not None}

    def _buffers(self) -> dict[str, Any]:
        if "state_after" not in self.case:
            return {}
        state = self.layer.state_dict()
        return {f"state {name}": state[name] for name in self.case["state_after"]}


def tensor_complaints(corpus: Corpus, case: Case) -> Finding:
    """Compare a function, method or layer with its record."""
    runner = TensorCase(corpus, case)
    return Finding(_tensor_complaints(runner, case), frozenset(runner.operators))


def _tensor_complaints(runner: TensorCase, case: Case) -> list[str]:
    got = runner.run()
    paths = [path for path in got if not path.startswith(("grad ", "state "))]
    if paths != [item["path"] for item in case["out"]]:
        return [f"the results are {paths}, recorded are {[i['path'] for i in case['out']]}"]
    rtol, atol = case.get("tol", TOLERANCE)
    found: list[str] = []
    for item in case["out"]:
        found += _result_complaints(runner, item, got[item["path"]], (rtol, atol))
    for name, reference in case.get("grads", {}).items():
        if reference is not None:
            want, have = runner.decoder.array(reference), got.get(f"grad {name}", np.zeros(0))
            found += differs(f"grad {name}", want, have, (rtol * _GRADIENTS, atol * _GRADIENTS))
    for name, reference in case.get("state_after", {}).items():
        want = runner.decoder.array(reference)
        found += differs(f"state {name}", want, got[f"state {name}"], (rtol, atol))
    return found


def _result_complaints(
    runner: TensorCase, item: dict[str, Any], got: Any, tolerance: tuple[float, float]
) -> list[str]:
    what = f"result {item['path']}".rstrip()
    if "py" in item:
        return differs_plainly(what, item["py"], got)
    if item.get("shape_only"):
        have = [list(np.shape(got)), str(got.dtype)]
        return differs_plainly(what, [item["shape_only"], item["dtype"]], have)
    found = differs(what, runner.decoder.array(item["a"]), got, tolerance)
    if runner.is_fluid:
        lengths = runner.lengths.get(item["path"], [])
        found += differs_plainly(f"{what}'s lengths", item.get("lod", []), lengths)
    return found


def random_complaints(corpus: Corpus, case: Case) -> Finding:
    """List the recorded facts that a random result does not satisfy."""
    runner = TensorCase(corpus, case)
    first = next(iter(runner.run().values()))
    found = violates(facts_of(np.asarray(first)), case["facts"])
    return Finding(found, frozenset(runner.operators))
